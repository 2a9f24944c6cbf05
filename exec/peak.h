/* exec/peak.h - what one core can compute at most, measured: the scale for what products reach. */
#ifndef BALLAST_EXEC_PEAK_H
#define BALLAST_EXEC_PEAK_H

/* FLOP/s in fp32 of one thread that does nothing but fused multiply-adds on registers, as wide as the processor has them and enough
 * of them apart to fill its pipes; the best of eight runs of about a millisecond. 0 where there is no such loop (not x86-64). *how says
 * what it rests on: "16 lanes (AVX-512)". */
double peak_flops(const char **how);

#endif
