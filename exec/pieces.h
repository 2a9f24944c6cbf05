/* exec/pieces.h - the kernels that no step launches by itself, on operands of our own: what Newton-Schulz, Shampoo and SOAP
 * launch inside of themselves, what collectives add up with, casts, quantization and the symmetric product. A shadowed
 * backend (exec/shadow.h) compares them with the CPU's as it does those of a step.
 */
#ifndef BALLAST_EXEC_PIECES_H
#define BALLAST_EXEC_PIECES_H

#include "exec/backend.h"

/* Each of them in each type that it has, and both ways where it has two; matrices are about (width, 3/2 width), the symmetric product's
 * not above PIECES_SYMMETRIC, since the CPU's is slow. Operands follow from the seed. Errors stay with the backend. */
enum { PIECES_SYMMETRIC = 768 };
void pieces_launch(struct backend *b, uint64_t width, uint64_t seed);

#endif
