/* model/graph/graph_build.h - the pieces that graph.c and graph_layer.c build units from. */
#ifndef BALLAST_MODEL_GRAPH_GRAPH_BUILD_H
#define BALLAST_MODEL_GRAPH_GRAPH_BUILD_H

#include "model/graph/graph.h"

struct build {
    const struct model *m;
    const struct unit *u;
    const struct unit_class *c;
    struct unit_graph *g;
    enum dtype act;
    uint64_t tokens, seq, micro; /* of the unit's stack */
    uint64_t
        between; /* tokens of what lies between products: a rank's share under sequence parallelism */
    uint32_t tp;
    uint64_t source, target; /* tokens of a sequence of encoder and decoder */
    bool overflow;           /* of any product or sum below */
};

uint64_t build_mul(struct build *b, uint64_t x, uint64_t y);
uint64_t build_mul3(struct build *b, uint64_t x, uint64_t y, uint64_t z);
uint64_t build_sum(struct build *b, uint64_t x, uint64_t y);
/* Bytes of so many activations. */
uint64_t build_bytes(struct build *b, uint64_t elements);

/* Index in the unit of a slot's tensor (of expert 0 for experts), or MODEL_NONE. */
uint32_t build_find(const struct build *b, enum tensor_slot slot, bool is_bias);
/* The tensor itself, or NULL. */
const struct tensor *build_tensor(const struct build *b, enum tensor_slot slot);

/* A value of `elements` activations; an op that makes `out`, and is the unit's last one so far. */
uint32_t build_value(struct build *b, const char *name, uint64_t elements);
struct graph_op *build_op(struct build *b, const char *name, uint32_t out);
void build_input(struct graph_op *o, uint32_t v, bool saved);
struct graph_op *build_last(struct build *b);

/* out[rows, n] = in[rows, k] W^T (+ bias), `batch` of them (experts). Backward: dgrad and wgrad. */
void build_gemm(struct build *b, const char *name, uint32_t in, uint32_t out, enum tensor_slot slot,
                uint64_t rows, uint64_t n, uint64_t k, uint64_t batch);
/* A norm of `rows` rows of `width`. */
void build_norm(struct build *b, const char *name, uint32_t in, uint32_t out, enum tensor_slot slot,
                uint64_t rows, uint64_t width);
/* rows x width elements, so many reads and writes of each; inputs are added by the caller. bwd KERNEL_NONE: none. */
void build_elementwise(struct build *b, const char *name, enum kernel fwd, enum kernel bwd,
                       uint64_t rows, uint64_t width, uint64_t fwd_streams, uint64_t bwd_streams,
                       uint32_t out);
/* x + y, of so many tokens of the hidden size, as a new value; between products. */
uint32_t build_sum_of(struct build *b, const char *name, const char *value_name, uint64_t tokens,
                      uint32_t x, uint32_t y);
uint32_t build_residual(struct build *b, const char *name, const char *value_name, uint32_t x,
                        uint32_t y);

/* Of tensor parallelism, between what all ranks do alike and the products that they share: in there each takes the whole value, and their
 * gradients of it are summed; out of there the sum of what they made, and its gradient goes to all. Under sequence parallelism
 * each has its tokens outside. Of `width` a token. `x` itself where a rank is alone. */
uint32_t build_enter(struct build *b, const char *name, uint64_t width, uint32_t x);
uint32_t build_leave(struct build *b, const char *name, uint64_t width, uint32_t y);
/* A value of the tokens between products. */
uint32_t build_value_between(struct build *b, const char *name, uint64_t width);

/* ---- graph_layer.c ---- */

/* Elements of all tokens; a value of them. */
uint64_t build_of_tokens(struct build *b, uint64_t width);
uint32_t build_value_of(struct build *b, const char *name, uint64_t width);
/* A linear layer on all tokens as a new value. */
uint32_t build_linear(struct build *b, const char *name, enum tensor_slot slot, uint32_t in,
                      uint64_t n, uint64_t k);
/* The norm of `slot` over the hidden size, or x where there is none. */
uint32_t build_norm_if(struct build *b, const char *name, enum tensor_slot slot, uint32_t x);
/* x * sigmoid(g) */
uint32_t build_gated(struct build *b, const char *name, uint32_t x, uint32_t g, uint64_t width);
/* The class's activation, of rows x width elements into `out`; inputs are added by the caller. NULL: its own name. */
void build_activation(struct build *b, const char *name, uint64_t rows, uint64_t width,
                      uint32_t out);
void build_layer(struct build *b);

/* ---- graph_attention.c: from the layer's normed input to what the output projection takes ---- */

uint32_t build_attention(struct build *b, uint32_t x);
uint32_t build_latent(struct build *b, uint32_t x);
/* ... and attention to `encoded`, its output projection included. */
uint32_t build_cross(struct build *b, uint32_t x, uint32_t encoded);
/* A value that another unit makes. */
uint32_t build_carried(struct build *b, enum carry c, const char *name, uint64_t elements);

#endif
