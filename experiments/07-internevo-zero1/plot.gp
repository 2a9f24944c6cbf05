# Token rate over GPUs, predicted (lines) and published (points).
w = 800; h = 480
load 'experiments/style.gp'
f = data.'scaling.dat'
set datafile missing '-'
set title "InternLM-7B under ZeRO-1, 8 A100 and 4 x 100 Gb/s a node" font ",14"
set logscale x 2
set xrange [7:1200]
set xtics (8, 16, 32, 64, 128, 256, 512, 1024)
set xlabel "GPUs"
set ylabel "tokens a second and GPU"
set yrange [0:5000]
set key bottom left
plot f using 1:5 with lines lw 2 dt 2 lc rgb green title "states over groups of 8, predicted", \
     '' using 1:6 with lines lw 2 dt 2 lc rgb orange title "states over groups of 64, predicted", \
     '' using 1:3 with lines lw 2 lc rgb blue title "states over all ranks, predicted", \
     '' using 1:2 with points pt 7 lc rgb blue title "states over all ranks, published"
