/* model/tensors/tensor_block.h - what a layer computes, from its tensors alone, for model_tensors.c. */
#ifndef BALLAST_MODEL_TENSORS_TENSOR_BLOCK_H
#define BALLAST_MODEL_TENSORS_TENSOR_BLOCK_H

#include "model/tensors/tensors.h"

/* In the order of units. A model of one stack has no layers at AT_ENCODER. */
enum place { AT_EMBED, AT_OTHER, AT_ENCODER, AT_BRIDGE, AT_LAYER, AT_HEAD };

/* A tensor on its way into a unit. */
struct item {
    const struct file_tensor *t;
    const char *unit; /* its name */
    enum place place;
    uint32_t number; /* of a layer */
    enum tensor_slot slot;
    enum tensor_role role;
    bool is_bias;
    int32_t expert;
};

/* The first of n items with this slot (of expert 0, where there are several), or NULL. */
const struct item *block_slot(const struct item *v, size_t n, enum tensor_slot s, bool bias);
/* The dimension of a matrix that is not `hidden`, in either order; 0 when neither is. */
uint64_t block_across(const struct item *x, uint64_t hidden);
/* Fill in the class of a layer that the graph knows, else false. Every weight must have a slot, or its products would be
 * missed. `active` experts a token, 0: unknown, all are taken; `heads` where something else tells them, or 0. */
bool block_known(struct unit_class *c, const struct item *v, size_t n, uint64_t hidden,
                 uint64_t active, uint64_t heads);

#endif
