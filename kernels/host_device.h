// HYC_HOST_DEVICE marks inline functions that kernels for CPUs and for GPUs share; nothing to other compilers than
// nvcc.
#ifndef HYC_KERNELS_HOST_DEVICE_H_
#define HYC_KERNELS_HOST_DEVICE_H_

#ifdef __CUDACC__
#define HYC_HOST_DEVICE __host__ __device__
#else
#define HYC_HOST_DEVICE
#endif

#endif  // HYC_KERNELS_HOST_DEVICE_H_
