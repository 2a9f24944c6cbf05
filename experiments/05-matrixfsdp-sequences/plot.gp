w = 760; h = 480
load 'experiments/style.gp'
set logscale xy
set title "MatrixFSDP's sequence sweep: 32 layers of h 4096 on 8 A100" font ",14"
set xlabel "tokens a sequence"; set ylabel "step, ms"
set xrange [900:18000]; set yrange [400:9000]
set xtics (1024, 2048, 4096, 8192, 16384)
set format y "%.0f"
plot data.'steps.dat' using 1:3 with lines lw 2 lc rgb orange title "stock, predicted", \
     '' using 1:2 with points pt 7 lc rgb orange title "stock, published", \
     '' using 1:5 with lines lw 2 lc rgb blue title "owners, predicted", \
     '' using 1:4 with points pt 7 lc rgb blue title "owners, published"
