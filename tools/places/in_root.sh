#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# in_root.sh ROOT TREE COMMAND...: runs a command of another distribution's root in our source tree.
# It mounts: for the kernel VM, or a mount namespace of its own.
set -eu
root=$1 tree=$2
shift 2
mount -t tmpfs tmpfs "$root/tmp"    # what the command leaves there goes with it
mkdir -p "$root/$tree"
for folder in /dev /proc /sys "$tree"; do
    mount --rbind "$folder" "$root/$folder"
done
exec chroot "$root" /bin/sh -c 'cd "$0" && exec "$@"' "$tree" "$@"
