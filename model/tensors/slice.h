/* model/tensors/slice.h - a model as one tensor-parallel rank sees it: smaller tensors, the same units.
 *
 * Megatron's cut (Shoeybi et al., arXiv 1909.08053): what takes the hidden vector (q, k, v, gate, up, their fused forms, the up
 * projections of latent attention) is cut by its outputs, what gives it (o, down) by its inputs; tables of the vocabulary, padded
 * to a multiple, by tokens; norms, routers, positions and the biases of o and down are whole. Experts are cut as an MLP is. Fewer
 * key heads than ranks are copied: each rank has one.
 *
 * The sliced model is an ordinary model: layouts cut it further over the data ranks and know nothing of this.
 */
#ifndef BALLAST_MODEL_TENSORS_SLICE_H
#define BALLAST_MODEL_TENSORS_SLICE_H

#include "model/tensors/model.h"

/* How a slot's weight is cut; its bias is cut with outputs and whole with inputs. Whole are weights between products, which see
 * all tokens or, under sequence parallelism, a rank's; and within them, beside what each rank has its heads or columns of. */
enum slice_cut {
    SLICE_WHOLE,
    SLICE_WHOLE_WITHIN,
    SLICE_OUTPUTS,
    SLICE_INPUTS,
    SLICE_VOCAB,
    SLICE_REFUSED
};
enum slice_cut slice_cut_of(enum tensor_slot slot);

/* `of` for one of tp ranks, in arena, names shared; tp 1: a copy. The vocabulary is padded to whole multiples of `pad` x tp
 * (Megatron's make-vocab-size-divisible-by; pad 1: of tp alone). ERR_UNSUPPORTED names the layer that cannot be cut; ERR_INVALID
 * the heads or the width that tp does not divide, with the nearest that does. O(tensors). */
int model_slice(const struct model *of, uint32_t tp, uint32_t pad, struct arena *a,
                struct model *out, struct err *e);

/* Is a rank's gradient of a tensor of the sliced model a part of the sum over tensor-parallel ranks, which has to be taken? Of
 * whole tensors that take or make what each rank has its heads or columns of (norms of queries and keys, routers, the down
 * projections of latent attention), of key heads that are copied, and under sequence parallelism of whatever sees each rank's
 * tokens alone: norms, positions, the biases of o and down (Korthikanti et al., arXiv 2205.05198, section 4.2). */
bool slice_gradient_partial(const struct model *of, const struct model *sliced, uint32_t tensor,
                            bool sequence_parallel);

#endif
