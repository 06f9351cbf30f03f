// Attention heads, from what the projections give to what attention takes:
//
//     norm (where there is one)   x / sqrt(mean(x^2) + eps) * weight, over a head
//     rotation                    pairs (a, b) turned by the angle scale * position / freq
//
// A warp for each head of each token. It rounds to T where MLX does.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace hearth {

constexpr int WARP = 32;

template <typename T, int D>
__device__ __forceinline__ void norm(const T* from, const T* weight, float eps, T* to) {
  float sum = 0.f;
  for (int i = threadIdx.x; i < D; i += WARP) {
    const float one = static_cast<float>(from[i]);
    sum += one * one;
  }
  for (int offset = WARP / 2; offset > 0; offset /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  const float factor = rsqrtf(sum / D + eps);
  for (int i = threadIdx.x; i < D; i += WARP) {
    const T one = static_cast<T>(static_cast<float>(from[i]) * factor);
    to[i] = static_cast<T>(static_cast<float>(one) * static_cast<float>(weight[i]));
  }
}

// The first R of D numbers are turned, the others copied. `freqs` [R / 2]: null where they are
// powers of a base.
template <typename T, int D, int R, bool ARE_NEIGHBOURS>
__device__ __forceinline__ void rotate(const T* from, float distance, const float* freqs,
                                       float log2_base, T* to) {
  for (int i = threadIdx.x; i < R / 2; i += WARP) {
    const float share = static_cast<float>(i) / static_cast<float>(R / 2);
    const float speed = freqs == nullptr ? exp2f(-share * log2_base) : 1.0f / freqs[i];
    float sine, cosine;
    sincosf(distance * speed, &sine, &cosine);
    const int first = ARE_NEIGHBOURS ? 2 * i : i, second = ARE_NEIGHBOURS ? first + 1 : i + R / 2;
    const float a = static_cast<float>(from[first]), b = static_cast<float>(from[second]);
    to[first] = static_cast<T>(a * cosine - b * sine);
    to[second] = static_cast<T>(a * sine + b * cosine);
  }
  for (int i = R + threadIdx.x; i < D; i += WARP) to[i] = from[i];
}

}  // namespace hearth
