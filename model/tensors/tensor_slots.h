/* model/tensors/tensor_slots.h - from the name of a tensor to its slot, for model_tensors.c. */
#ifndef BALLAST_MODEL_TENSORS_TENSOR_SLOTS_H
#define BALLAST_MODEL_TENSORS_TENSOR_SLOTS_H

#include "model/tensors/hf.h"
#include "model/tensors/tensors.h"

/* "model.layers.3.mlp.up_proj.weight": container "model.layers", number 3, rest "mlp.up_proj.weight" */
struct name_parts {
    size_t container; /* its length */
    uint32_t number;
    const char *rest;
};
/* The first number between dots splits a name; false when there is none. */
bool slots_layer(const char *name, struct name_parts *out);

enum { SLOTS_STACKED = -2 }; /* expert: all of them, in the first dimension */
struct slot_match {
    enum tensor_slot slot;
    bool is_bias;
    int32_t expert; /* -1: of none */
};
bool slots_match(const struct hf_names *names, const char *name, struct slot_match *out);
/* Is a layer's tensor one of the second stack of a family of two? */
bool slots_in_decoder(const struct hf_names *names, const char *name, const struct name_parts *p);
/* The family whose names most of the list's tensors have, or NULL when none has any. */
const struct hf_family *slots_family(const struct tensor_list *l);

#endif
