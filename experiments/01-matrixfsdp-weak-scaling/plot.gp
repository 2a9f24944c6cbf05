# Nodes, optimizer and step, predicted (lines) and published (points).
w = 1000; h = 460
load 'experiments/style.gp'
set multiplot layout 1,2 title "MatrixFSDP weak scaling: 16 layers a node" font ",15"
set logscale x 2
set xrange [0.85:9.4]
set xtics (1,2,4,8)
set xlabel "nodes of 8 A100"
set logscale y
set title "optimizer" font ",13"
set ylabel "ms"
set yrange [50:10000]
plot data.'weak-scaling.dat' using 1:2 with lines lw 2 lc rgb orange title "stock, predicted", \
     '' using 1:4 with points pt 7 ps 0.9 lc rgb orange title "stock, published", \
     '' using 1:3 with lines lw 2 lc rgb green title "owner, predicted", \
     '' using 1:5 with points pt 7 ps 0.9 lc rgb green title "owner, published"
set title "step" font ",13"
set yrange [500:20000]
plot data.'weak-scaling.dat' using 1:6 with lines lw 2 lc rgb orange title "stock, predicted", \
     '' using 1:8 with points pt 7 ps 0.9 lc rgb orange title "stock, published", \
     '' using 1:7 with lines lw 2 lc rgb green title "owner, predicted", \
     '' using 1:9 with points pt 7 ps 0.9 lc rgb green title "owner, published"
unset multiplot
