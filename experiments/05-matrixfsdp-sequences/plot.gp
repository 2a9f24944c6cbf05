# Step and optimizer over the length of a sequence, predicted (lines) and published (points).
w = 1100; h = 470
load 'experiments/style.gp'
set multiplot layout 1,2 title "MatrixFSDP: 32 layers of h 4096 on 8 A100, one sequence a GPU" font ",14"
set logscale x 2
set xlabel "tokens of a sequence"
set xtics ("1k" 1024, "2k" 2048, "4k" 4096, "8k" 8192, "16k" 16384)
set xrange [900:18500]
f = data.'sequences.dat'
set title "step, s" font ",12"
set logscale y
set yrange [0.4:10]
set ytics (0.5, 1, 2, 5, 10)
plot f using 1:($3/1e3) with lines lw 2 lc rgb orange title "stock, predicted", \
     '' using 1:($2/1e3) with points pt 7 lc rgb orange title "stock, published", \
     '' using 1:($5/1e3) with lines lw 2 lc rgb green title "owner, predicted", \
     '' using 1:($4/1e3) with points pt 7 lc rgb green title "owner, published"
set title "optimizer, ms: it does not know the sequence" font ",12"
unset logscale y
set yrange [0:1100]
set ytics auto
plot f using 1:7 with lines lw 2 lc rgb orange title "stock, predicted", \
     '' using 1:6 with points pt 7 lc rgb orange title "stock, published", \
     '' using 1:9 with lines lw 2 lc rgb green title "owner, predicted", \
     '' using 1:8 with points pt 7 lc rgb green title "owner, published"
unset multiplot
