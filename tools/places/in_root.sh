#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# in_root.sh ROOT TREE COMMAND...: in the kernel VM, runs a command of another distribution's root in our source tree.
set -eu
root=$1 tree=$2
shift 2
mkdir -p "$root/$tree"
for folder in /dev /proc /sys "$tree"; do
    mount --rbind "$folder" "$root/$folder"
done
exec chroot "$root" /bin/sh -c 'cd "$0" && exec "$@"' "$tree" "$@"
