// Attention of decode steps: one query for each row and head, over that row's own keys.
//
//     out = softmax(q k^T * scale) v
//
// A block serves G query heads that share keys, and reads each key and value once for all of them.
// A key's D numbers lie over LANES threads, eight in each; the groups of LANES threads of a block
// take the keys in turns, each with a softmax of its own so far (Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018). They are put together at the end. Where rows
// are few, several blocks share a row's keys, and join() puts their parts together (Dao et al.,
// "Flash-Decoding", 2023).

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace hearth {

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;
constexpr int AT_ONCE = 4;           // keys of a group whose loads are under way together
constexpr float LEAST = -1e30f;      // below every score; a finite one, as its difference is taken
constexpr float LOG2_E = 1.4426950408889634f;

__device__ __forceinline__ float2 as_floats(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }
__device__ __forceinline__ float2 as_floats(__half2 pair) { return __half22float2(pair); }

template <typename T> struct Pair;
template <> struct Pair<__nv_bfloat16> { using type = __nv_bfloat162; };
template <> struct Pair<__half> { using type = __half2; };

// Eight neighbours, read in 16 bytes (or twice 16).
template <typename T> struct Eight {
  uint4 raw = {0, 0, 0, 0};
  __device__ __forceinline__ void load(const T* from) { raw = *reinterpret_cast<const uint4*>(from); }
  __device__ __forceinline__ void unpack(float (&to)[8]) const {
    const auto* pairs = reinterpret_cast<const typename Pair<T>::type*>(&raw);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = as_floats(pairs[i]);
      to[2 * i] = two.x;
      to[2 * i + 1] = two.y;
    }
  }
};

template <> struct Eight<float> {
  float4 low = {0, 0, 0, 0}, high = {0, 0, 0, 0};
  __device__ __forceinline__ void load(const float* from) {
    low = reinterpret_cast<const float4*>(from)[0];
    high = reinterpret_cast<const float4*>(from)[1];
  }
  __device__ __forceinline__ void unpack(float (&to)[8]) const {
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
  }
};

__host__ __device__ constexpr int lanes_of(int size) {
  int lanes = 1;
  while (lanes * 8 < size) lanes *= 2;
  return lanes;
}

// Numbers [row, head, token, ...] that lie next to each other for one token.
template <typename T> struct Tokens {
  const T* first;
  long long row, head, token;
  __device__ __forceinline__ const T* of(int at_row, int at_head) const {
    return first + at_row * row + at_head * head;
  }
};

struct Mask {
  const bool* first;  // [row, token]; null: everything counts
  long long row, token;
};

// What a thread knows of its eight places of G heads' answers: sum = sum of weight * value, total =
// sum of weights, all weights relative to the greatest score.
template <int G> struct Softmax {
  float sum[G][8], greatest[G], total[G];

  __device__ __forceinline__ Softmax() {
#pragma unroll
    for (int g = 0; g < G; ++g) {
      greatest[g] = LEAST;
      total[g] = 0.f;
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[g][i] = 0.f;
    }
  }

  // Scores become weights.
  __device__ __forceinline__ void weigh(float (&scores)[AT_ONCE][G]) {
#pragma unroll
    for (int g = 0; g < G; ++g) {
      float now = greatest[g];
#pragma unroll
      for (int u = 0; u < AT_ONCE; ++u) now = fmaxf(now, scores[u][g]);
      const float shrink = exp2f(greatest[g] - now);
      greatest[g] = now;
      total[g] *= shrink;
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[g][i] *= shrink;
#pragma unroll
      for (int u = 0; u < AT_ONCE; ++u) {
        scores[u][g] = exp2f(scores[u][g] - now);
        total[g] += scores[u][g];
      }
    }
  }

  __device__ __forceinline__ void add(const float (&value)[8], const float (&weights)[G]) {
#pragma unroll
    for (int g = 0; g < G; ++g)
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[g][i] += weights[g] * value[i];
  }

  // With what the thread `offset` lanes away knows of the same places.
  __device__ __forceinline__ void merge(int g, int offset) {
    const float other = __shfl_xor_sync(0xffffffffu, greatest[g], offset);
    const float now = fmaxf(greatest[g], other);
    const float mine = exp2f(greatest[g] - now), theirs = exp2f(other - now);
    total[g] = total[g] * mine + __shfl_xor_sync(0xffffffffu, total[g], offset) * theirs;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      sum[g][i] = sum[g][i] * mine + __shfl_xor_sync(0xffffffffu, sum[g][i], offset) * theirs;
    greatest[g] = now;
  }
};

// Grid: parts of the keys, head groups, rows. `store(head, number, greatest, total, sum)` is called
// by D threads for each of the block's heads.
template <typename T, int D, int G, typename Store>
__device__ void attend(Tokens<T> queries, long long query_step, Tokens<T> keys, Tokens<T> values,
                       int num_keys, int heads_per_key, float scale, Mask mask,
                       const int* starts, Store store) {
  constexpr int LANES = lanes_of(D);
  constexpr int GROUPS = THREADS / LANES;
  const int part = blockIdx.x, num_parts = gridDim.x, row = blockIdx.z;
  const int first_head = blockIdx.y * G, key_head = first_head / heads_per_key;
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const bool is_used = lane * 8 < D;  // sizes that are no power of two leave lanes idle
  const int place = is_used ? lane * 8 : 0;

  float query[G][8];
#pragma unroll
  for (int g = 0; g < G; ++g) {
    const T* from = queries.of(row, first_head + g);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      query[g][i] =
          is_used ? static_cast<float>(from[(place + i) * query_step]) * (scale * LOG2_E) : 0.f;
  }

  const long long start = starts[row], span = num_keys - start;
  const int begin = start + span * part / num_parts, end = start + span * (part + 1) / num_parts;
  const T* key = keys.of(row, key_head) + place;
  const T* value = values.of(row, key_head) + place;
  Softmax<G> softmax;
  for (int base = begin; base < end; base += GROUPS * AT_ONCE) {
    Eight<T> raw_keys[AT_ONCE], raw_values[AT_ONCE];
    bool counts[AT_ONCE];
#pragma unroll
    for (int u = 0; u < AT_ONCE; ++u) {
      const int at = base + u * GROUPS + group;
      const long long known = min(at, end - 1);
      raw_keys[u].load(key + known * keys.token);
      raw_values[u].load(value + known * values.token);
      counts[u] = at < end;
      if (mask.first != nullptr)
        counts[u] = counts[u] && mask.first[row * mask.row + known * mask.token];
    }
    float scores[AT_ONCE][G];
#pragma unroll
    for (int u = 0; u < AT_ONCE; ++u) {
      float one[8];
      raw_keys[u].unpack(one);
#pragma unroll
      for (int g = 0; g < G; ++g) {
        float score = 0.f;
#pragma unroll
        for (int i = 0; i < 8; ++i) score += query[g][i] * one[i];
#pragma unroll
        for (int offset = LANES / 2; offset > 0; offset /= 2)
          score += __shfl_xor_sync(0xffffffffu, score, offset);
        scores[u][g] = counts[u] ? score : -INFINITY;
      }
    }
    softmax.weigh(scores);
#pragma unroll
    for (int u = 0; u < AT_ONCE; ++u) {
      float one[8];
      raw_values[u].unpack(one);
      softmax.add(one, scores[u]);
    }
  }

  __shared__ float sums[WARPS][D];
  __shared__ float greatest[WARPS], totals[WARPS];
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int g = 0; g < G; ++g) {
#pragma unroll
    for (int offset = 16; offset >= LANES; offset /= 2) softmax.merge(g, offset);
    __syncthreads();
    if (threadIdx.x % 32 < LANES && is_used) {
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[warp][place + i] = softmax.sum[g][i];
      if (lane == 0) greatest[warp] = softmax.greatest[g], totals[warp] = softmax.total[g];
    }
    __syncthreads();
    if (threadIdx.x < D) {
      float now = LEAST, total = 0.f, sum = 0.f;
#pragma unroll
      for (int w = 0; w < WARPS; ++w) now = fmaxf(now, greatest[w]);
#pragma unroll
      for (int w = 0; w < WARPS; ++w) {
        const float share = exp2f(greatest[w] - now);
        total += totals[w] * share;
        sum += sums[w][threadIdx.x] * share;
      }
      const long long line = static_cast<long long>(row) * gridDim.y * G + first_head + g;
      store(line, now, total, sum);
    }
  }
}

// A row without a key that counts is zeros: nobody reads it, and it is no number that spreads. A
// total that is no number is not 0: what a row computes after an overflow must not look like one.
__device__ __forceinline__ float answer(float sum, float total) {
  return total == 0.f ? 0.f : sum / total;
}

// parts [line, part, D], scales [line, part, 2] (greatest score, total); a block for each line.
template <typename T, int D>
__device__ void join(const float* parts, const float* scales, int num_parts, T* out) {
  const long long line = blockIdx.x;
  float now = LEAST, total = 0.f, sum = 0.f;
  for (int p = 0; p < num_parts; ++p) now = fmaxf(now, scales[(line * num_parts + p) * 2]);
  for (int p = 0; p < num_parts; ++p) {
    const long long at = line * num_parts + p;
    const float share = exp2f(scales[at * 2] - now);
    total += scales[at * 2 + 1] * share;
    sum += parts[at * D + threadIdx.x] * share;
  }
  out[line * D + threadIdx.x] = static_cast<T>(answer(sum, total));
}

}  // namespace hearth
