/* The dimensions of a layer's operations from the shapes of its tensors. */
#include "model/tensors/tensor_block.h"

#include "core/num.h"

const struct item *block_slot(const struct item *v, size_t n, enum tensor_slot s, bool bias)
{
    for (size_t i = 0; i < n; i++)
        if (v[i].slot == s && v[i].is_bias == bias && v[i].expert <= 0)
            return &v[i];
    return NULL;
}

/* The dimension that is not `hidden`, in either order; 0 when neither is. */
uint64_t block_across(const struct item *x, uint64_t hidden)
{
    if (!x || x->t->n_dims != 2)
        return 0;
    return x->t->shape[1] == hidden ? x->t->shape[0]
                                    : (x->t->shape[0] == hidden ? x->t->shape[1] : 0);
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t t = a % b;

        a = b;
        b = t;
    }
    return a;
}

/* Heads that give these widths: the largest size that divides both, or that of q's norm. */
static bool heads_of(struct unit_class *c, uint64_t q, uint64_t kv, const struct item *q_norm)
{
    uint64_t d = gcd(q, kv);

    if (!q || !kv || q % kv)
        return false;
    if (q_norm && q_norm->t->n_dims == 1 && d % q_norm->t->shape[0] == 0)
        d = q_norm->t->shape[0];
    c->n_heads = (uint32_t)(q / d);
    c->n_kv_heads = (uint32_t)(kv / d);
    c->head_dim = (uint32_t)d;
    return q / d <= UINT32_MAX;
}

/* All four tensors of an indexer, of sizes that fit each other, or none of them. */
static bool indexer(const struct item *v, size_t n, uint64_t hidden)
{
    const struct item *q = block_slot(v, n, SLOT_INDEX_Q, false);
    const struct item *k = block_slot(v, n, SLOT_INDEX_K, false);
    const struct item *norm = block_slot(v, n, SLOT_INDEX_K_NORM, false);
    const struct item *weights = block_slot(v, n, SLOT_INDEX_WEIGHTS, false);
    const struct item *rank = block_slot(v, n, SLOT_Q_A_NORM, false);
    uint64_t dim, heads, rows;

    if (!q && !k && !norm && !weights)
        return true;
    if (!q || !k || !norm || !weights || !rank || q->t->n_dims != 2)
        return false;
    dim = block_across(k, hidden);
    heads = block_across(weights, hidden);
    rows = q->t->shape[0];
    return dim && heads && norm->t->n_dims == 1 && norm->t->shape[0] == dim && rows % heads == 0 &&
           rows / heads == dim && q->t->shape[1] == rank->t->shape[0];
}

/* h heads: kv_b has h (nope + v) rows, o h v columns, q h (nope + rope), kv_a what is left of it is rope. */
static bool latent(struct unit_class *c, const struct item *v, size_t n, uint64_t hidden)
{
    const struct item *kv_b = block_slot(v, n, SLOT_KV_B, false),
                      *q = block_slot(v, n, SLOT_Q_B, false);
    const struct item *norm = block_slot(v, n, SLOT_KV_A_NORM, false);
    uint64_t o = block_across(block_slot(v, n, SLOT_O, false), hidden), kv, q_rows, turned, rope,
             heads;
    uint64_t kv_a = block_across(block_slot(v, n, SLOT_KV_A, false), hidden);

    if (!q)
        q = block_slot(v, n, SLOT_Q, false);
    if (!kv_b || !q || !norm || !o || kv_b->t->n_dims != 2 || q->t->n_dims != 2)
        return false;
    kv = kv_b->t->shape[0];
    q_rows = q->t->shape[0];
    rope = kv_a - num_min(kv_a, norm->t->shape[0]);
    if (!rope || kv <= o || q_rows <= kv - o)
        return false;
    turned = q_rows - (kv - o);
    heads = turned / rope;
    if (!heads || turned % rope || q_rows % heads || o % heads || heads > UINT32_MAX)
        return false;
    c->mixer = MIXER_MLA;
    c->n_heads = c->n_kv_heads = (uint32_t)heads;
    c->head_dim = (uint32_t)(q_rows / heads);
    c->rotary_dim = (uint32_t)rope;
    c->v_head_dim = (uint32_t)(o / heads);
    return true;
}

static bool attention(struct unit_class *c, const struct item *v, size_t n, uint64_t hidden)
{
    uint64_t q = block_across(block_slot(v, n, SLOT_O, false), hidden), rows, kv;
    const struct item *values = block_slot(v, n, SLOT_V, false); /* none: the keys */
    const struct item *norm = block_slot(v, n, SLOT_Q_NORM, false);

    c->qk_norm = norm && block_slot(v, n, SLOT_K_NORM, false);
    if (block_slot(v, n, SLOT_QKV, false)) {
        rows = block_across(block_slot(v, n, SLOT_QKV, false), hidden);
        c->fused_qkv = true;
        return q && rows > q && (rows - q) % 2 == 0 && heads_of(c, q, (rows - q) / 2, norm);
    }
    rows = block_across(block_slot(v, n, SLOT_Q, false), hidden);
    kv = block_across(block_slot(v, n, SLOT_K, false), hidden);
    c->output_gate = q && rows == 2 * q;
    return (rows == q || c->output_gate) && (!values || kv == block_across(values, hidden)) &&
           heads_of(c, q, kv, norm);
}

/* Attention to an encoder, as wide as a layer's own: all of it, in a decoder, and nothing of it elsewhere. */
static bool cross(const struct unit_class *c, const struct item *v, size_t n, uint64_t hidden)
{
    static const enum tensor_slot own[] = {SLOT_Q, SLOT_K, SLOT_V, SLOT_O};
    static const enum tensor_slot other[] = {SLOT_CROSS_Q, SLOT_CROSS_K, SLOT_CROSS_V,
                                             SLOT_CROSS_O};
    bool ok = true;

    for (int i = 0; i < 4; i++)
        ok &=
            block_across(block_slot(v, n, other[i], false), hidden) ==
            (c->stack == STACK_DECODER ? block_across(block_slot(v, n, own[i], false), hidden) : 0);
    return ok;
}

static bool mlp(struct unit_class *c, const struct item *v, size_t n, uint64_t hidden)
{
    const struct item *down = block_slot(v, n, SLOT_DOWN, false);

    c->ffn = block_across(down, hidden);
    if (!c->ffn)
        return !down;
    if (block_slot(v, n, SLOT_GATE_UP, false))
        return block_across(block_slot(v, n, SLOT_GATE_UP, false), hidden) == 2 * c->ffn;
    c->act = block_slot(v, n, SLOT_GATE, false) ? ACT_SWIGLU : ACT_GELU;
    return block_across(block_slot(v, n, SLOT_UP, false), hidden) == c->ffn;
}

/* Experts: as many as the last one's number says, each with the same slots. */
static bool mixture(struct unit_class *c, const struct item *v, size_t n, uint64_t active)
{
    uint32_t experts = 0, each = 0, all = 0;

    for (size_t i = 0; i < n; i++) {
        if (v[i].expert < 0)
            continue;
        experts = (uint32_t)num_max(experts, (uint64_t)v[i].expert + 1);
        each += v[i].expert == 0;
        all++;
    }
    c->n_experts = experts;
    c->n_active = experts;
    if (active && active <= experts)
        c->n_active = (uint32_t)active;
    return (uint64_t)experts * each == all && (!experts || block_slot(v, n, SLOT_ROUTER, false));
}

bool block_known(struct unit_class *c, const struct item *v, size_t n, uint64_t hidden,
                 uint64_t active, uint64_t heads)
{
    const struct item *norm1 = block_slot(v, n, SLOT_NORM1, false);

    for (size_t i = 0; i < n; i++)
        if (v[i].slot == SLOT_OTHER)
            return false;
    if (block_slot(v, n, SLOT_CONV, false)) /* heads of recurrences are in no shape */
        return false;
    if (block_slot(v, n, SLOT_KV_A, false)) {
        if (!latent(c, v, n, hidden) || !indexer(v, n, hidden))
            return false;
    } else if (block_slot(v, n, SLOT_O, false)) {
        if (!attention(c, v, n, hidden) || !cross(c, v, n, hidden))
            return false;
        if (heads && heads != c->n_heads) { /* as many of keys */
            uint64_t width = (uint64_t)c->n_heads * c->head_dim;

            if (c->n_heads != c->n_kv_heads || heads > UINT32_MAX || width % heads)
                return false;
            c->n_heads = c->n_kv_heads = (uint32_t)heads;
            c->head_dim = (uint32_t)(width / heads);
        }
    } else {
        c->mixer = MIXER_NONE;
    }
    if (!mlp(c, v, n, hidden) || !mixture(c, v, n, active))
        return false;
    if (c->mixer == MIXER_NONE && !c->ffn)
        return false;
    c->parallel = norm1 && c->ffn && c->mixer != MIXER_NONE &&
                  !block_slot(v, n, SLOT_NORM2, false) && !block_slot(v, n, SLOT_NORM1_POST, false);
    c->route = ROUTE_OTHER; /* unknown */
    c->heads_unknown = true;
    return true;
}
