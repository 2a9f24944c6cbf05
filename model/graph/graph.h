/* model/graph/graph.h - what a unit computes: values and the kernels between them, for one micro-batch.
 *
 * The forward pass of a unit class as a straight list of kernel calls on values (activations). Each call says what its
 * backward needs, so that one walk gives FLOPs, HBM traffic, which activations must be kept, and the backward list.
 * Sources: transformer shapes as Hugging Face's modelling code builds them; FLOPs by counting multiply-adds as 2
 * (GEMM 2mnk; attention 2*batch*heads*pairs*(head_dim + v_head_dim), where pairs is seq^2, half of it when a causal
 * kernel skips the upper triangle, window*seq - window^2/2 in a window that slides, chunk*seq/2 in whole chunks;
 * a decoder's tokens times the encoder's where it attends to those);
 * HBM bytes by counting each operand once (a fused kernel's compulsory traffic).
 */
#ifndef BALLAST_MODEL_GRAPH_GRAPH_H
#define BALLAST_MODEL_GRAPH_GRAPH_H

#include "model/tensors/model.h"

/* kernel, name, what bounds it: G(EMM), A(ttention), E(lementwise: HBM), N(ewton-Schulz and other optimizer algebra) */
#define KERNELS(X)                                                                                 \
    X(KERNEL_NONE, "none", 'E')                                                                    \
    X(KERNEL_EMBED, "embed", 'E')                                                                  \
    X(KERNEL_EMBED_BACKWARD, "embed_backward", 'E')                                                \
    X(KERNEL_POSITION_ADD, "position_add", 'E')                                                    \
    X(KERNEL_POSITION_BACKWARD, "position_backward", 'E')                                          \
    X(KERNEL_GEMM, "gemm", 'G')             /* (m,k) x (k,n), batch of them */                     \
    X(KERNEL_GEMM_DGRAD, "gemm_dgrad", 'G') /* (m,n) x (n,k) */                                    \
    X(KERNEL_GEMM_WGRAD, "gemm_wgrad", 'G') /* (n,m) x (m,k) */                                    \
    X(KERNEL_RMSNORM, "rmsnorm", 'E')                                                              \
    X(KERNEL_RMSNORM_BACKWARD, "rmsnorm_backward", 'E')                                            \
    X(KERNEL_LAYERNORM, "layernorm", 'E')                                                          \
    X(KERNEL_LAYERNORM_BACKWARD, "layernorm_backward", 'E')                                        \
    X(KERNEL_ROPE, "rope", 'E')                                                                    \
    X(KERNEL_ROPE_BACKWARD, "rope_backward", 'E')                                                  \
    X(KERNEL_ATTENTION, "attention", 'A') /* batch x heads of (s,d) */                             \
    X(KERNEL_ATTENTION_BACKWARD, "attention_backward", 'A')                                        \
    X(KERNEL_SWIGLU, "swiglu", 'E')                                                                \
    X(KERNEL_SWIGLU_BACKWARD, "swiglu_backward", 'E')                                              \
    X(KERNEL_GELU, "gelu", 'E')                                                                    \
    X(KERNEL_GELU_BACKWARD, "gelu_backward", 'E')                                                  \
    X(KERNEL_GEGLU, "geglu", 'E')                                                                  \
    X(KERNEL_GEGLU_BACKWARD, "geglu_backward", 'E')                                                \
    X(KERNEL_RELU, "relu", 'E')                                                                    \
    X(KERNEL_RELU_BACKWARD, "relu_backward", 'E')                                                  \
    X(KERNEL_RELU2, "relu2", 'E') /* relu(x)^2 */                                                  \
    X(KERNEL_RELU2_BACKWARD, "relu2_backward", 'E')                                                \
    X(KERNEL_TANH, "tanh", 'E')                                                                    \
    X(KERNEL_TANH_BACKWARD, "tanh_backward", 'E')                                                  \
    X(KERNEL_SIGMOID_GATE, "sigmoid_gate", 'E') /* x * sigmoid(g) */                               \
    X(KERNEL_SIGMOID_GATE_BACKWARD, "sigmoid_gate_backward", 'E')                                  \
    X(KERNEL_CONV1D, "conv1d", 'E') /* causal, a filter a channel, and SiLU */                     \
    X(KERNEL_CONV1D_BACKWARD, "conv1d_backward", 'E')                                              \
    X(KERNEL_DECAY, "decay", 'E') /* the step or decay of each head, with its bias */              \
    X(KERNEL_DECAY_BACKWARD, "decay_backward", 'E')                                                \
    X(KERNEL_SCAN, "scan", 'A') /* a linear recurrence in chunks: see graph_layer.c */             \
    X(KERNEL_SCAN_BACKWARD, "scan_backward", 'A')                                                  \
    X(KERNEL_COPY, "copy", 'E') /* a framework's, between tensors and a collective's buffer */     \
    X(KERNEL_ADD, "add", 'E')                                                                      \
    X(KERNEL_ROUTE, "route", 'E') /* softmax, top-k, permutation */                                \
    X(KERNEL_ROUTE_BACKWARD, "route_backward", 'E')                                                \
    X(KERNEL_DISPATCH, "dispatch", 'E') /* tokens to expert order */                               \
    X(KERNEL_DISPATCH_BACKWARD, "dispatch_backward", 'E')                                          \
    X(KERNEL_COMBINE, "combine", 'E') /* weighted sum back into token order */                     \
    X(KERNEL_COMBINE_BACKWARD, "combine_backward", 'E')                                            \
    X(KERNEL_CROSS_ENTROPY, "cross_entropy", 'E')                                                  \
    X(KERNEL_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward", 'E')                                \
    X(KERNEL_MOMENTUM, "momentum", 'E') /* Nesterov momentum of one matrix */                      \
    X(KERNEL_NEWTON_SCHULZ, "newton_schulz", 'N')                                                  \
    X(KERNEL_NEWTON_SCHULZ_SHARDED, "newton_schulz_sharded", 'N') /* 1/W of each product */        \
    X(KERNEL_MATRIX_UPDATE, "matrix_update", 'E')                                                  \
    X(KERNEL_SHAMPOO, "shampoo", 'N')                                                              \
    X(KERNEL_SOAP, "soap", 'N')                                                                    \
    X(KERNEL_ADAMW, "adamw", 'E')                                                                  \
    X(KERNEL_LION, "lion", 'E')                                                                    \
    X(KERNEL_ROW_NORMALIZE, "row_normalize", 'E') /* each row over the root of its second moment */
#define KERNEL_ENUM(k, name, bound) k,
enum kernel { KERNELS(KERNEL_ENUM) KERNEL_N };
#undef KERNEL_ENUM
const char *kernel_name(enum kernel k);
char kernel_bound(enum kernel k);

/* One launch (or a fixed group of them). Units: elements of the shapes, FLOPs, bytes of HBM read and written. */
struct kernel_call {
    enum kernel kernel;
    uint64_t m, n, k,
        batch; /* GEMM: (m,k)x(k,n); attention: m = query tokens, n = key tokens, k = head_dim,
                                batch = sequences x heads; elementwise: m x n elements; optimizer: m x n matrix,
                                m <= n, k = steps */
    uint64_t flops;
    uint64_t hbm_bytes;
    uint32_t launches;
    uint32_t more;  /* Newton-Schulz: matrices of this shape beside the one, in batched products */
    bool fp8;       /* GEMM: operands cast to fp8 as they come, result in 16 bits */
    bool symmetric; /* Newton-Schulz: of symmetric products one triangle is worked */
    bool fp32;      /* GEMM and attention: operands of 4 bytes, else of 2 (bf16, fp16) */
    bool biased;    /* attention: something of every score's own is read and added to it */
};

enum { GRAPH_MAX_IN = 6, GRAPH_MAX_VALUES = 49, GRAPH_MAX_OPS = 48 };

/* Values that one unit makes and later ones read. They live from there until that unit is done with backward; their
 * gradients, from the last reader's backward to the maker's, sum over the readers.
 * ENCODED: the encoder's output, which the layers of the decoder attend to. BIAS: relative positions of one layer of a
 * stack, which all its layers add to their scores. */
#define CARRIED(X)                                                                                 \
    X(CARRIED_NONE, "none")                                                                        \
    X(CARRIED_ENCODED, "encoded")                                                                  \
    X(CARRIED_BIAS, "bias")                                                                        \
    X(CARRIED_DECODER_BIAS, "decoder_bias")
#define CARRIED_ENUM(c, name) c,
enum carry { CARRIED(CARRIED_ENUM) CARRIED_N };
#undef CARRIED_ENUM
const char *carried_name(enum carry c);

struct graph_value {
    const char *name;
    enum carry carried; /* NONE: the unit's own */
    uint64_t bytes;     /* of one micro-batch */
    bool needed;        /* the backward of some op reads it */
    bool again;         /* never kept: made again where backward reads it */
    bool heavy;  /* made by a GEMM, attention or a scan: selective recomputation may save it */
    bool logits; /* of the vocabulary's size */
};

/* What tensor-parallel ranks exchange of a value: one of them makes `elements` of what another reads. */
enum exchange_kind {
    EXCHANGE_NONE,
    EXCHANGE_ALL_REDUCE,
    EXCHANGE_ALL_GATHER,
    EXCHANGE_REDUCE_SCATTER
};

struct graph_op {
    const char *name;
    /* An exchange has no kernel: its output is what its input is after `forward`, the gradient of its input what that of its
     * output is after `backward`. NONE: as it is. */
    bool is_exchange;
    enum exchange_kind exchange_forward, exchange_backward;
    uint64_t exchange_elements; /* of the whole value */
    uint32_t exchange_calls;    /* that often in a row */
    bool exchange_fp32;         /* else the type of activations */
    struct kernel_call forward;
    struct kernel_call backward[2]; /* dgrad, wgrad; or one */
    const char *backward_name[2];
    uint32_t n_backward;
    uint32_t in[GRAPH_MAX_IN], n_in; /* values */
    uint32_t out;                    /* a value */
    uint32_t
        beside; /* unfused attention: the scores, which it makes too and its backward reads; 0: none */
    bool saves_in[GRAPH_MAX_IN]; /* backward reads this input again */
    bool saves_out;
    uint32_t weight;    /* first tensor, index in the unit, or MODEL_NONE */
    uint32_t n_weights; /* experts: n_experts, every weight_stride tensors */
    uint32_t weight_stride;
    uint32_t
        counts; /* experts: the value with each one's rows (kernel_route's offsets), or MODEL_NONE */
    uint32_t bias;            /* index in the unit or MODEL_NONE */
    bool weight_of_embedding; /* a tied head: `weight` is an index in unit 0 */
};

/* Value 0 is the unit's input (for UNIT_EMBED: the token ids). The last op's `out` is the unit's output. */
struct unit_graph {
    struct graph_value values[GRAPH_MAX_VALUES];
    struct graph_op ops[GRAPH_MAX_OPS];
    uint32_t n_values, n_ops, output;
    uint64_t forward_flops, backward_flops;
};

/* What a rank takes at once: sequences, their tokens, and those of their targets where a decoder stands beside an
 * encoder (0: as many). */
struct graph_batch {
    uint64_t micro_batch, seq_len, target_len;
    uint32_t
        tp; /* ranks that share a layer's products; 0: one. The model is sliced (model/tensors/slice.h) */
    bool sequence_parallel; /* they share the tokens of what lies between products too */
};
/* Tokens of a sequence that the units of a stack work on. */
uint64_t graph_tokens(const struct graph_batch *n, enum stack_kind s);

/* Build the graph of class `c` of model m for such a batch with activations of `act`. ERR_OVERFLOW when a product passes
 * 2^63. */
int graph_build(const struct model *m, uint32_t class_id, const struct graph_batch *n,
                enum dtype act, struct unit_graph *g, struct err *e);

/* Attention whose scores pass through memory: each operation keeps, for backward, the softmax and the dropout's result in `act` and a
 * byte of its mask a score, over all pairs whether masked or not (Korthikanti et al., arXiv 2205.05198: 5 a s^2 b bytes in 16
 * bits), in place of flash attention's output and row sums. ERR_OVERFLOW as graph_build(). */
int graph_unfuse_attention(struct unit_graph *g, enum dtype act, struct err *e);

/* A cross entropy of one kernel: it reads the logits, and again in backward, where it writes their gradient; between them it keeps an
 * fp32 number a token. */
void graph_fuse_loss(struct unit_graph *g);

/* Model FLOPs of one token, forward and backward (MFU's numerator, docs/METRICS.md): 6 per parameter that a token meets
 * without look-ups, plus 12*layers*hidden*seq for attention, not halved for causal masks or windows; hidden is that of
 * the heads, and layers without attention count nothing. Beside an encoder's tokens, which are the ones that count as
 * such, stand the decoder's: a parameter counts for the tokens that it meets, attention for pairs of query and key. A
 * pooler meets one token of a sequence. */
double graph_model_flops_per_token(const struct model *m, uint64_t seq_len, uint64_t target_len);

/* Can exec run every operation of the model on sequences of seq_len tokens? ERR_UNSUPPORTED names the first that it
 * cannot, with its class. */
int graph_trains(const struct model *m, uint64_t seq_len, struct err *e);

#endif
