w = 760; h = 480
load 'experiments/style.gp'
set logscale x 2
set key bottom left
set title "InternLM-7B, ZeRO-1 on A100 with 4 x 100 Gb/s a node" font ",14"
set xlabel "GPUs"; set ylabel "tokens a second and GPU"
set xrange [7:1200]; set yrange [0:4600]
set xtics (8, 16, 32, 64, 128, 256, 512, 1024)
plot data.'rate.dat' using 1:3 with lines lw 2 lc rgb blue title "predicted, states over all ranks", \
     '' using 1:2 with points pt 7 lc rgb "black" title "published", \
     '' using 1:4 with lines lw 2 dt 2 lc rgb green title "predicted, states in groups of 64"
