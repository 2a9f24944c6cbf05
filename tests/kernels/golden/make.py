#!/usr/bin/env python3
"""make.py - the golden tables of this folder, once: pip install torch pytorch_optimizer; python3 make.py

Takes a few seconds and rewrites newton_schulz.json, muon.json, adamw.json, soap.json and shampoo.json. Every file names
its source. All runs in float64, so that the tests measure our error alone. Change a file only with this script, and say
in the commit what changed and why.

  newton_schulz, muon  torch.optim.Muon. It computes in bf16; here its working type is replaced by float64.
  adamw                torch.optim.AdamW
  soap                 pytorch_optimizer.SOAP
  shampoo              written here with torch.linalg.eigh: libraries disagree on what surrounds the roots. The formulas
                       are those of kernels/optimizer.h, in another form (roots by eigh in float64, no blocks reused).
"""
import json
import os
from importlib.metadata import version
from unittest import mock

import pytorch_optimizer
import torch
from torch.optim import _muon

HERE = os.path.dirname(os.path.abspath(__file__))
F64 = torch.float64


def numbers(t):
    return [float("%.9g" % v) for v in t.detach().to(F64).flatten().tolist()]


def grid(gen, *shape):
    """Random values in [-2, 2] with few digits: exact in fp32."""
    return torch.randint(-128, 129, shape, generator=gen).to(F64) / 64


def matrix(gen, kind, rows, cols):
    if kind == "zero":
        return torch.zeros(rows, cols, dtype=F64)
    if kind == "rank-deficient":
        return torch.sign(grid(gen, rows, 2)) @ grid(gen, 2, cols)
    return grid(gen, rows, cols)


KINDS = [("square", 6, 6), ("wide", 4, 9), ("tall", 9, 4), ("odd", 7, 5), ("rank-deficient", 6, 6),
         ("rank-deficient", 5, 8), ("zero", 3, 5), ("row", 1, 7)]


def float64_for_bf16():
    return mock.patch.object(torch, "bfloat16", F64)


def write(name, source, cases):
    path = os.path.join(HERE, name + ".json")
    with open(path, "w") as f:
        f.write('{"source": %s, "cases": [\n' % json.dumps(source))
        f.write(",\n".join(json.dumps(c) for c in cases))
        f.write("\n]}\n")
    print("%s: %d cases, %d bytes" % (name, len(cases), os.path.getsize(path)))


def newton_schulz():
    gen, cases = torch.Generator().manual_seed(1), []
    for kind, rows, cols in KINDS + [("square", 13, 13), ("wide", 5, 17)]:
        for steps in (2, 5):
            x = matrix(gen, kind, rows, cols)
            with float64_for_bf16():
                y = _muon._zeropower_via_newtonschulz(x, (3.4445, -4.7750, 2.0315), steps, 1e-7)
            cases.append({"name": "%s %dx%d" % (kind, rows, cols), "rows": rows, "cols": cols,
                          "steps": steps, "x": numbers(x), "y": numbers(y)})
    write("newton_schulz", "torch %s, torch.optim._muon in float64" % torch.__version__, cases)


def run(p, grads, opt):
    after = []
    for g in grads:
        p.grad = g.clone()
        opt.step()
        after.append(numbers(p))
    return after


def muon():
    gen, cases = torch.Generator().manual_seed(2), []
    for scaling, fn in (("spectral", "original"), ("rms", "match_rms_adamw")):
        for kind, rows, cols in KINDS:
            p = torch.nn.Parameter(grid(gen, rows, cols))
            p0 = numbers(p)
            grads = [matrix(gen, kind, rows, cols) for _ in range(3)]
            opt = torch.optim.Muon([p], lr=0.02, weight_decay=0.1, momentum=0.95, nesterov=True,
                                   adjust_lr_fn=fn)
            with float64_for_bf16():
                after = run(p, grads, opt)
            cases.append({"name": "%s %dx%d %s" % (kind, rows, cols, scaling), "rows": rows,
                          "cols": cols, "scaling": scaling, "lr": 0.02, "decay": 0.1, "mu": 0.95,
                          "p": p0, "grads": [numbers(g) for g in grads], "after": after})
    write("muon", "torch %s, torch.optim.Muon in float64" % torch.__version__, cases)


def adamw():
    gen, cases = torch.Generator().manual_seed(3), []
    for lr, b1, b2, eps, decay in ((0.01, 0.9, 0.999, 1e-8, 0.1), (0.003, 0.9, 0.95, 1e-6, 0.0)):
        for zero in (False, True):
            n = 11
            p = torch.nn.Parameter(grid(gen, n))
            p0 = numbers(p)
            grads = [torch.zeros(n, dtype=F64) if zero else grid(gen, n) for _ in range(3)]
            opt = torch.optim.AdamW([p], lr=lr, betas=(b1, b2), eps=eps, weight_decay=decay)
            cases.append({"name": "lr %g%s" % (lr, " zero" if zero else ""), "lr": lr, "beta1": b1,
                          "beta2": b2, "eps": eps, "decay": decay, "p": p0,
                          "grads": [numbers(g) for g in grads], "after": run(p, grads, opt)})
    write("adamw", "torch %s, torch.optim.AdamW in float64" % torch.__version__, cases)


def soap():
    """p starts at 0 with lr 1: p is minus the sum of the updates. A basis of what no gradient has reached is arbitrary,
    and Adam depends on it: cases of low rank keep to one row and column space (fixed factors), or start from a state
    that full-rank gradients made (warm), or give the longer side no basis (max_dim)."""
    gen, cases = torch.Generator().manual_seed(4), []

    def case(name, rows, cols, grads, warm=0, max_dim=10000, frequency=2, eps=1e-8):
        p = torch.nn.Parameter(torch.zeros(rows, cols, dtype=F64))
        opt = pytorch_optimizer.SOAP([p], lr=1.0, betas=(0.9, 0.95), shampoo_beta=0.8,
                                     weight_decay=0.0, precondition_frequency=frequency, eps=eps,
                                     max_precondition_dim=max_dim)
        c = {"name": name, "rows": rows, "cols": cols, "beta1": 0.9, "beta2": 0.95,
             "beta_shampoo": 0.8, "eps": eps, "frequency": frequency, "max_dim": max_dim,
             "step": warm + 1}
        if warm:
            run(p, grads[:warm], opt)
            s = opt.state[p]
            c["state"] = {"m": numbers(s["exp_avg"]), "v": numbers(s["exp_avg_sq"]),
                          "l": numbers(s["GG"][0]), "ql": numbers(s["Q"][0]),
                          "r": numbers(s["GG"][1]), "qr": numbers(s["Q"][1])}
            p.data.zero_()
        c["grads"] = [numbers(g) for g in grads[warm:]]
        c["after"] = run(p, grads[warm:], opt)
        cases.append(c)

    def spread(n):
        """Gradients with singular values apart: their eigenvectors are well-conditioned."""
        return torch.diag(torch.arange(n, 0, -1).to(F64))

    case("square 6x6", 6, 6, [grid(gen, 6, 6) + 2 * spread(6) for _ in range(4)])
    case("odd 5x5", 5, 5, [grid(gen, 5, 5) + 2 * spread(5) for _ in range(4)], frequency=1)
    case("wide 4x9, small side", 4, 9, [grid(gen, 4, 9) for _ in range(4)], max_dim=5)
    case("tall 9x4, small side", 9, 4, [grid(gen, 9, 4) for _ in range(4)], max_dim=5)
    v = grid(gen, 4, 9) / 4 + 2 * torch.eye(4, 9, dtype=F64)
    small = [grid(gen, 4, 4) / 2 + spread(4) for _ in range(8)]
    case("wide 4x9, one row space", 4, 9, [s @ v for s in small[:4]], eps=1e-2)
    case("tall 9x4, one column space", 9, 4, [v.T @ s for s in small[4:]], eps=1e-2)
    case("wide 4x9, warm", 4, 9, [grid(gen, 4, 9) for _ in range(9)], warm=6)
    case("tall 9x4, warm", 9, 4, [grid(gen, 9, 4) for _ in range(9)], warm=6)
    case("odd 7x5, warm", 7, 5, [grid(gen, 7, 5) for _ in range(9)], warm=6)
    u, w = torch.sign(grid(gen, 6, 2)), grid(gen, 2, 6)
    case("rank-deficient 6x6", 6, 6, [u @ grid(gen, 2, 2) @ w for _ in range(4)], eps=1e-2)
    case("zero 3x5", 3, 5, [torch.zeros(3, 5, dtype=F64) for _ in range(4)])
    write("soap", "pytorch_optimizer %s (torch %s), SOAP in float64" %
          (version("pytorch_optimizer"), torch.__version__), cases)


def inverse_fourth_root(stat, ridge):
    values, vectors = torch.linalg.eigh(stat)
    values = values.clamp(min=0)
    if values.max() == 0:
        return torch.eye(len(values), dtype=F64)
    return vectors @ torch.diag((values + ridge * values.max()) ** -0.25) @ vectors.T


def shampoo_updates(grads, beta1, beta2, eps, ridge, frequency, max_dim, graft):
    rows, cols = grads[0].shape
    out = [torch.zeros(rows, cols, dtype=F64) for _ in grads]
    for i in range(0, rows, max_dim):
        for j in range(0, cols, max_dim):
            at = (slice(i, min(i + max_dim, rows)), slice(j, min(j + max_dim, cols)))
            m = v = left = right = 0
            for t, grad in enumerate(grads, 1):
                g = grad[at]
                m = beta1 * m + (1 - beta1) * g
                v = beta2 * v + (1 - beta2) * g ** 2
                left = beta2 * left + (1 - beta2) * g @ g.T
                right = beta2 * right + (1 - beta2) * g.T @ g
                if t % frequency == 1 % frequency:
                    roots = [inverse_fourth_root(s / (1 - beta2 ** t), ridge) for s in (left, right)]
                mean = m / (1 - beta1 ** t)
                u = roots[0] @ mean @ roots[1]
                if graft and u.norm() > 0:
                    u = u * (mean / ((v / (1 - beta2 ** t)).sqrt() + eps)).norm() / u.norm()
                out[t - 1][at] = u
    return out


def shampoo():
    gen, cases = torch.Generator().manual_seed(5), []
    for kind, rows, cols, frequency, max_dim, graft in (
            ("square", 6, 6, 1, 100, True), ("square", 6, 6, 2, 100, False),
            ("wide", 4, 9, 2, 100, True), ("tall", 9, 4, 1, 100, True), ("odd", 7, 5, 2, 100, False),
            ("odd", 7, 5, 1, 3, True), ("wide", 4, 9, 2, 4, True), ("rank-deficient", 6, 6, 2, 100, True),
            ("zero", 3, 5, 1, 100, True)):
        h = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "ridge": 1e-3, "frequency": frequency,
             "max_dim": max_dim, "graft": graft}
        grads = [matrix(gen, kind, rows, cols) for _ in range(3)]
        cases.append({"name": "%s %dx%d, blocks of %d" % (kind, rows, cols, max_dim), "rows": rows,
                      "cols": cols, **h, "grads": [numbers(g) for g in grads],
                      "updates": [numbers(u) for u in shampoo_updates(grads, **h)]})
    write("shampoo", "make.py with torch %s, float64" % torch.__version__, cases)


if __name__ == "__main__":
    newton_schulz()
    muon()
    adamw()
    soap()
    shampoo()
