/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every function of libcuda that is called, by the exact name that dlsym takes, with the CUDA release that brought it.
 * The names with _v2 are the ones to use: the bare names are exported too, with an older and narrower ABI.
 *
 * CUresult, CUdevice and all enumerations are int; CUdeviceptr and allocation handles are uint64_t; CUcontext is void *.
 */
#ifndef CUDA_DRIVER_SYMBOLS_H
#define CUDA_DRIVER_SYMBOLS_H

#define CUDA_SYMBOLS(X)                                                                                                \
    X(cuInit, "2.0", (unsigned flags))                                                                                 \
    X(cuDriverGetVersion, "2.2", (int *version))                                                                       \
    X(cuDeviceGetCount, "2.0", (int *count))                                                                           \
    X(cuDeviceGet, "2.0", (int *device, int ordinal))                                                                  \
    X(cuDeviceGetAttribute, "2.0", (int *value, int attribute, int device))                                            \
    X(cuDeviceGetName, "2.0", (char *name, int size, int device))                                                      \
    X(cuDeviceGetPCIBusId, "4.1", (char *address, int size, int device))                                               \
    X(cuDevicePrimaryCtxRetain, "7.0", (void **context, int device))                                                   \
    X(cuDevicePrimaryCtxRelease_v2, "11.0", (int device))                                                              \
    X(cuDevicePrimaryCtxRelease, "7.0", (int device))                                                                  \
    X(cuDevicePrimaryCtxGetState, "7.0", (int device, unsigned *flags, int *active))                                   \
    X(cuCtxGetCurrent, "4.0", (void **context))                                                                        \
    X(cuCtxPushCurrent_v2, "4.0", (void *context))                                                                     \
    X(cuCtxPopCurrent_v2, "4.0", (void **context))                                                                     \
    X(cuCtxGetDevice, "2.0", (int *device))                                                                            \
    X(cuCtxSynchronize, "2.0", (void))                                                                                 \
    X(cuPointerGetAttribute, "4.0", (void *value, int attribute, uint64_t pointer))                                    \
    X(cuMemGetAddressRange_v2, "3.2", (uint64_t *base, size_t *size, uint64_t pointer))                                \
    X(cuMemRetainAllocationHandle, "11.0", (uint64_t *handle, void *pointer))                                          \
    X(cuMemRelease, "10.2", (uint64_t handle))                                                                         \
    X(cuMemGetAllocationPropertiesFromHandle, "10.2", (void *properties, uint64_t handle))                             \
    X(cuMemGetHandleForAddressRange, "11.7",                                                                           \
      (void *handle, uint64_t pointer, size_t size, int type, unsigned long long flags))                               \
    X(cuFlushGPUDirectRDMAWrites, "11.3", (int target, int scope))

#endif
