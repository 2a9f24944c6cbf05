# Optimizer time and memory over the size of the model on 64 A100, predicted (lines) and published (points).
w = 1100; h = 500
load 'experiments/style.gp'
f = data.'sizes.dat'
set datafile missing '-'
set multiplot layout 1,2 title "MatrixFSDP on 64 A100: 1.7B to 32B parameters" font ",14"
set logscale xy
set xlabel "parameters, 10^9"
set xrange [1.1:45]
set xtics (1.5, 2, 4, 8, 16, 32)
set title "optimizer, ms" font ",12"
set yrange [2:400000]
set ytics (10, 100, 1000, 10000)
plot f using 2:3 with linespoints pt 6 ps 0.5 lw 2 lc rgb blue title "ZeRO-1 owner, predicted", \
     '' using 2:17 with points pt 7 ps 1.1 lc rgb blue title "ZeRO-1 owner, published", \
     '' using 2:5 with linespoints pt 6 ps 0.5 lw 2 lc rgb orange title "stock, predicted", \
     '' using 2:11 with points pt 7 ps 1.1 lc rgb orange title "stock, published", \
     '' using 2:6 with linespoints pt 6 ps 0.5 lw 2 lc rgb green title "owner, predicted", \
     '' using 2:12 with points pt 7 ps 1.1 lc rgb green title "owner, published"
set title "memory of the fullest rank, GiB (allocator)" font ",12"
set yrange [0.7:600]
set ytics (1, 2, 5, 10, 20, 50, 100)
set arrow 1 from 1.1,80 to 45,80 nohead dt 3 lc rgb grey
set label 1 "80 GiB" at 1.15,66 tc rgb grey font ",10"
plot f using 2:7 with linespoints pt 6 ps 0.5 lw 2 lc rgb blue title "ZeRO-1 owner", \
     '' using 2:13 with points pt 7 ps 1.1 lc rgb blue notitle, \
     '' using 2:8 with linespoints pt 6 ps 0.5 lw 2 lc rgb purple title "gather-once", \
     '' using 2:14 with points pt 7 ps 1.1 lc rgb purple notitle, \
     '' using 2:9 with linespoints pt 6 ps 0.5 lw 2 lc rgb orange title "stock", \
     '' using 2:15 with points pt 7 ps 1.1 lc rgb orange notitle, \
     '' using 2:10 with linespoints pt 6 ps 0.5 lw 2 lc rgb green title "owner", \
     '' using 2:16 with points pt 7 ps 1.1 lc rgb green notitle, \
     NaN with points pt 7 ps 1.1 lc rgb "black" title "published"
unset multiplot
