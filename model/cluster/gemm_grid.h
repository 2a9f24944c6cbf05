/* model/cluster/gemm_grid.h - measured times of matrix products, on a grid of shapes (m,k) x (k,n).
 *
 * What corrects the tile and wave model of sim/device.c where a device has been measured: by the ratio of measured to modelled time,
 * so that a change of the device's rates changes its products. In a cluster file it is device.gemm_grid: the name of a bundled grid
 * (topologies/gemm/NAME.json), or an object {model, m, n, k, us}: the constants that the model had where it was measured, three
 * ascending lists of sizes, and the times in microseconds of all their combinations, us[m][n][k]; null: not measured.
 */
#ifndef BALLAST_MODEL_CLUSTER_GEMM_GRID_H
#define BALLAST_MODEL_CLUSTER_GEMM_GRID_H

#include "core/json.h"

enum { GEMM_GRID_MAX = 10 };
struct gemm_grid_model {
    double sm_flops; /* FLOP/s of an SM that the largest tile reaches */
    double sms;
    double k0;      /* elements */
    double hbm_Bps; /* reached */
    double kernel_s;
};
struct gemm_grid {
    struct gemm_grid_model model;
    const char *name; /* of a bundled grid (static), or NULL */
    uint32_t n[3];    /* sizes of m, n and k */
    double at[3][GEMM_GRID_MAX];
    float us[GEMM_GRID_MAX][GEMM_GRID_MAX][GEMM_GRID_MAX]; /* [m][n][k]; 0: not measured */
};

/* The value of device.gemm_grid. ERR_UNKNOWN with the nearest name, ERR_INVALID for sizes that do not ascend, too many,
 * or lists of other lengths than theirs. */
int gemm_grid_read(const struct json_at *v, struct gemm_grid *g, struct err *e);
/* Writes what gemm_grid_read() reads: the name, or the whole. */
void gemm_grid_add(cJSON *to, const char *key, const struct gemm_grid *g);

/* The measured corners around a shape: those of its cell, clamped to the grid's border, in log2 of each size; `weight` sums to 1
 * over the measured ones. Returns how many (0: none of the cell is measured, or g is NULL). */
struct gemm_corner {
    double m, n, k, s, weight; /* s: measured seconds */
};
int gemm_grid_around(const struct gemm_grid *g, double m, double n, double k,
                     struct gemm_corner out[8]);

#endif
