# Left: the optimizer's step of each strategy. Right: the whole step under all-to-all over that under owners, by network.
w = 1100; h = 540
load 'experiments/style.gp'
f = data.'strategies.dat'
set multiplot layout 1,2 title "Qwen3-32B with Muon: rebuild matrices, send them round, or own them" font ",14"
set logscale x 2
set key below left maxrows 4
set xrange [7:1200]
set xtics (8, 16, 32, 64, 128, 256, 512, 1024)
set xlabel "GPUs, 8 A100 a node" offset 0,0.7
set grid xtics ytics lc rgb "#dddddd" lt 1
set logscale y
set format y "%g"
set yrange [30:60000]
set ylabel "ms"
set title "optimizer's step, 8 NICs of 200 Gb/s" font ",12"
plot f using 1:2 with linespoints pt 6 ps 0.6 lw 2 lc rgb orange title "stock: operands gathered, products cut", \
     '' using 1:3 with linespoints pt 6 ps 0.6 lw 2 lc rgb red title "gather: every rank, every matrix", \
     '' using 1:4 with linespoints pt 6 ps 0.6 lw 2 lc rgb blue title "all-to-all: one matrix of a shape a rank", \
     '' using 1:5 with linespoints pt 6 ps 0.6 lw 2 lc rgb green title "owners"
unset logscale y
set yrange [0.98:1.25]
set ylabel "all-to-all / owners"
set format y "%.2f"
set title "whole step, next to owners" font ",12"
plot f using 1:9 with linespoints pt 6 ps 0.6 lw 2 lc rgb purple title "4 NICs of 100 Gb/s, 1,024 tokens a GPU", \
     '' using 1:8 with linespoints pt 6 ps 0.6 lw 2 lc rgb red title "4 NICs of 100 Gb/s", \
     '' using 1:7 with linespoints pt 6 ps 0.6 lw 2 lc rgb orange title "4 NICs of 200 Gb/s", \
     '' using 1:6 with linespoints pt 6 ps 0.6 lw 2 lc rgb blue title "8 NICs of 200 Gb/s"
unset multiplot
