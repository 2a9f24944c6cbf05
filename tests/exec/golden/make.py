#!/usr/bin/env python3
"""make.py - trajectories of a tiny model under each optimizer: pip install numpy autograd; python3 make.py

Takes some seconds and rewrites muon.json, adamw.json, shampoo.json and soap.json in this folder. Change a file only with this
script, and say in the commit what changed and why.

Everything is written here from papers and from what docs/EXEC.md promises, in float64, with gradients by the autograd package;
nothing of Ballast's C is used. So it stands for what exec trains and with which constants:

  model     Llama's block (Touvron et al., 2023): RMSNorm with eps 1e-5, rotary positions with base 10000 in the half-split form
            (Su et al., 2021), causal attention scaled by 1/sqrt(head), SwiGLU, an untied head, the mean cross-entropy
  muon      Jordan et al. (2024): m = mu m + (1-mu) g, Nesterov's mu m + (1-mu) g, five steps of Newton-Schulz with
            (3.4445, -4.7750, 2.0315) after division by the Frobenius norm, as torch.optim.Muon; times
            0.2 sqrt(max(rows, cols)) (Moonlight, arXiv 2502.16982); mu 0.95; decoupled decay 0.01
  adamw     Loshchilov and Hutter (2019), as torch.optim.AdamW: a tenth of the matrices' rate, betas 0.9 and 0.95, eps 1e-8,
            decoupled decay 0.01; under every optimizer for what is no matrix of a block
  shampoo   kernels/optimizer.h says which of the published variants: both sides' inverse fourth roots, every 10th step from the
            first, ridge 1e-6 of the largest eigenvalue, grafted to the length of Adam's step (Anil et al., arXiv 2002.09018);
            betas 0.9 and 0.999; a tenth of the rate
  soap      Vyas et al. (arXiv 2409.11321): no update in the first step; betas 0.95, 0.95, and 0.95 of the preconditioner, eps 1e-8,
            a step of QR every 10th; a tenth of the rate

Initial weights and tokens are hashes (docs/EXEC.md): the mixing function is murmur3's 64-bit finalizer.
For each step and tensor: of the parameter and of each state its Euclidean norm and its product with cos(1), cos(2), ...
SOAP's second moment lies in a basis whose signs and order are free: its norm alone; the basis itself: nothing.
"""
import json
import os

import autograd
import autograd.numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = (1 << 64) - 1

SEED, WORLD, MICRO, SEQUENCES, SEQ = 7, 2, 2, 2, 6  # SEQUENCES a micro-batch
VOCAB, HIDDEN, HEADS = 12, 8, 2
HEAD = HIDDEN // HEADS


def tensors(ffn):
    layer = [("layers.0." + n, s) for n, s in (
        ("norm1.weight", (HIDDEN,)), ("q.weight", (HIDDEN, HIDDEN)), ("k.weight", (HIDDEN, HIDDEN)),
        ("v.weight", (HIDDEN, HIDDEN)), ("proj.weight", (HIDDEN, HIDDEN)), ("norm2.weight", (HIDDEN,)),
        ("gate.weight", (ffn, HIDDEN)), ("up.weight", (ffn, HIDDEN)), ("down.weight", (HIDDEN, ffn)))]
    return [("embed.weight", (VOCAB, HIDDEN))] + layer + [("final_norm.weight", (HIDDEN,)),
                                                         ("head.weight", (VOCAB, HIDDEN))]


def is_matrix(name, shape):
    return name.startswith("layers.") and len(shape) == 2


# ---- numbers from their names ----

def mix(h):
    h ^= h >> 33
    h = h * 0xFF51AFD7ED558CCD & MASK
    h ^= h >> 33
    h = h * 0xC4CEB9FE1A85EC53 & MASK
    return h ^ h >> 33


def hash4(a, b, c, d):
    return mix(a + mix(b + mix(c + mix(d + 0x9E3779B97F4A7C15 & MASK) & MASK) & MASK) & MASK)


def weight(tensor, i, mean, deviation):
    """The sum of four uniform numbers of 16 bits, centred, in units of its deviation."""
    h = hash4(SEED, tensor, i, 1)
    total = sum(h >> 16 * k & 0xFFFF for k in range(4))
    return mean + deviation * (total - 131070) / 37837.2


def first_weights(names):
    out = []
    for t, (name, shape) in enumerate(names):
        norm = "norm" in name
        n = int(np.prod(shape))
        w = [weight(t, i, 1.0 if norm else 0.0, 0.0 if norm else 0.05) for i in range(n)]
        # what is stored is fp32
        out.append(np.array(w).astype(np.float32).astype(np.float64).reshape(shape))
    return out


def tokens(step, micro, rank):
    stride = 1 + hash4(SEED, 0, 0, 0) % 7
    inputs, targets = [], []
    for s in range(SEQUENCES):
        h = hash4(SEED, step << 20 | micro, rank, s)
        at = h % VOCAB
        for i in range(SEQ):
            inputs.append(at)
            r = hash4(h, i, 0, 0)
            at = r // 8 % VOCAB if r % 8 == 0 else (at + stride) % VOCAB
            targets.append(at)
    return np.array(inputs), np.array(targets)


# ---- the model ----

def rmsnorm(x, w):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5) * w


def rope(x):
    """(sequences, SEQ, HEADS, HEAD)"""
    half = HEAD // 2
    angle = np.arange(SEQ)[:, None] * 10000.0 ** (-2.0 * np.arange(half) / HEAD)
    c, s = np.cos(angle)[None, :, None, :], np.sin(angle)[None, :, None, :]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def loss_of(p, inputs, targets):
    embed, norm1, q, k, v, o, norm2, gate, up, down, final, head = p
    x = embed[inputs]
    y = rmsnorm(x, norm1)
    split = (SEQUENCES, SEQ, HEADS, HEAD)
    q, k, v = [(y @ w.T).reshape(split) for w in (q, k, v)]
    scores = np.einsum("bihd,bjhd->bhij", rope(q), rope(k)) / np.sqrt(HEAD)
    scores = np.where(np.tril(np.ones((SEQ, SEQ))) > 0, scores, -1e30)
    scores = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    scores = scores / np.sum(scores, axis=-1, keepdims=True)
    x = x + np.einsum("bhij,bjhd->bihd", scores, v).reshape(-1, HIDDEN) @ o.T
    y = rmsnorm(x, norm2)
    g = y @ gate.T
    x = x + (g / (1 + np.exp(-g)) * (y @ up.T)) @ down.T
    logits = rmsnorm(x, final) @ head.T
    top = np.max(logits, axis=-1, keepdims=True)
    logp = logits - top - np.log(np.sum(np.exp(logits - top), axis=-1, keepdims=True))
    return -np.mean(logp[np.arange(len(targets)), targets])


gradient_of = autograd.value_and_grad(loss_of)


def batch(p, step):
    """Means over micro-batches and ranks, which are equally large."""
    total, grads, n = 0.0, [np.zeros_like(x) for x in p], WORLD * MICRO
    for rank in range(WORLD):
        for micro in range(MICRO):
            value, g = gradient_of(p, *tokens(step, micro, rank))
            total += value / n
            grads = [a + b / n for a, b in zip(grads, g)]
    return total, grads


# ---- optimizers: (parameter, gradient, state, step from 1, rate of matrices) -> parameter ----

DECAY = 0.01


def adamw(p, g, s, t, lr):
    lr = lr * 0.1
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.95 * s.get("v", 0) + 0.05 * g * g
    step = s["m"] / (1 - 0.9 ** t) / (np.sqrt(s["v"] / (1 - 0.95 ** t)) + 1e-8)
    return p * (1 - lr * DECAY) - lr * step


def newton_schulz(x):
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / max(np.linalg.norm(x), 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if tall else x


def muon(p, g, s, t, lr):
    s["m"] = 0.95 * s.get("m", 0) + 0.05 * g
    u = newton_schulz(0.05 * g + 0.95 * s["m"])
    return p * (1 - lr * DECAY) - lr * 0.2 * np.sqrt(max(p.shape)) * u


def inverse_fourth_root(stat):
    values, vectors = np.linalg.eigh(stat)
    return vectors @ np.diag((np.maximum(values, 0) + 1e-6 * values.max()) ** -0.25) @ vectors.T


def shampoo(p, g, s, t, lr):
    b1, b2 = 0.9, 0.999
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    s["l"] = b2 * s.get("l", 0) + (1 - b2) * g @ g.T
    s["r"] = b2 * s.get("r", 0) + (1 - b2) * g.T @ g
    if t % 10 == 1:
        s["l_root"] = inverse_fourth_root(s["l"] / (1 - b2 ** t))
        s["r_root"] = inverse_fourth_root(s["r"] / (1 - b2 ** t))
    mean = s["m"] / (1 - b1 ** t)
    u = s["l_root"] @ mean @ s["r_root"]
    adam = mean / (np.sqrt(s["v"] / (1 - b2 ** t)) + 1e-8)
    return p * (1 - lr * DECAY) - lr * 0.1 * u * np.linalg.norm(adam) / np.linalg.norm(u)


def soap(p, g, s, t, lr):
    b1, b2, bs = 0.95, 0.95, 0.95
    if t == 1:
        s["m"], s["v"] = np.zeros_like(g), np.zeros_like(g)
        s["l"], s["r"] = (1 - bs) * g @ g.T, (1 - bs) * g.T @ g
        s["ql"], s["qr"] = [np.linalg.eigh(x)[1] for x in (s["l"], s["r"])]
        return p * (1 - lr * DECAY)
    t -= 1
    ql, qr = s["ql"], s["qr"]
    s["m"] = b1 * s["m"] + (1 - b1) * g
    s["v"] = b2 * s["v"] + (1 - b2) * (ql.T @ g @ qr) ** 2
    u = ql @ ((ql.T @ s["m"] @ qr) / (np.sqrt(s["v"]) + 1e-8)) @ qr.T
    u = u * np.sqrt(1 - b2 ** t) / (1 - b1 ** t)
    s["l"] = bs * s["l"] + (1 - bs) * g @ g.T
    s["r"] = bs * s["r"] + (1 - bs) * g.T @ g
    if t % 10 == 0:
        for side, q in (("l", "ql"), ("r", "qr")):
            order = np.argsort(-np.diag(s[q].T @ s[side] @ s[q]))
            s["v"] = s["v"][order] if side == "l" else s["v"][:, order]
            s[q] = np.linalg.qr(s[side] @ s[q][:, order])[0]
    return p * (1 - lr * DECAY) - lr * 0.1 * u


STATES = {muon: ["m"], adamw: ["m", "v"], shampoo: ["m", "v", "l", "r", "l_root", "r_root"],
          soap: ["m", "v", "l", "r"]}


def short(x):
    return float("%.9g" % x)


def digest(x):
    x = np.ravel(x)
    return [short(np.linalg.norm(x)), short(np.dot(x, np.cos(np.arange(1, len(x) + 1))))]


def trajectory(name, optimizer, ffn, lr, steps):
    names = tensors(ffn)
    p, states, out = first_weights(names), [{} for _ in names], []
    for t in range(1, steps + 1):
        loss, grads = batch(p, t)
        for i, (tensor, shape) in enumerate(names):
            fn = optimizer if is_matrix(tensor, shape) else adamw
            p[i] = fn(p[i], grads[i], states[i], t, lr)
        row = []
        for i, (tensor, shape) in enumerate(names):
            fn = optimizer if is_matrix(tensor, shape) else adamw
            row.append([digest(p[i])] + [digest(states[i][k]) for k in STATES[fn]])
        out.append('{"loss": %s, "tensors": [\n  %s]}' %
                   (json.dumps(short(loss)), ",\n  ".join(json.dumps(x) for x in row)))
    head = {"source": "make.py with numpy %s and autograd, float64" % np.__version__,
            "model": "block:layers=1,hidden=%d,ffn=%d,heads=%d,mlp=swiglu,vocab=%d" % (HIDDEN, ffn, HEADS, VOCAB),
            "optimizer": name, "lr": lr, "seed": SEED, "world": WORLD, "grad_accum": MICRO,
            "micro_batch": SEQUENCES, "seq_len": SEQ, "names": [n for n, _ in names]}
    path = os.path.join(HERE, name + ".json")
    with open(path, "w") as f:
        f.write(json.dumps(head)[:-1] + ', "steps": [\n' + ",\n".join(out) + "\n]}\n")
    print("%s: %d steps, loss %s, %d bytes" % (name, steps, loss, os.path.getsize(path)))


if __name__ == "__main__":
    # Of a matrix that is not square SOAP's eigenvectors of what no gradient has reached are arbitrary, and Adam depends on them.
    trajectory("muon", muon, 20, 0.25, 4)
    trajectory("adamw", adamw, 20, 0.25, 4)
    trajectory("shampoo", shampoo, 20, 0.25, 12)
    trajectory("soap", soap, 8, 0.25, 12)
