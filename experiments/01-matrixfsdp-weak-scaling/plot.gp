# gnuplot -e "out='build/weak-scaling'" plot.gp: nodes, optimizer and step, predicted (lines) and published (points).
set terminal svg size 1000,460 font "Helvetica,12" background "white"
set output out.'.svg'
set multiplot layout 1,2 title "MatrixFSDP weak scaling: 16 layers a node" font ",15"
set logscale x 2
set xrange [0.85:9.4]
set xtics (1,2,4,8)
set xlabel "nodes of 8 A100"
set border 3 lc rgb "#666666"
set tics nomirror out
set grid ytics lc rgb "#dddddd" lt 1
set key top left reverse Left samplen 2
set logscale y
set title "optimizer" font ",13"
set ylabel "ms"
set yrange [50:10000]
plot out.'.dat' using 1:2 with lines lw 2 lc rgb "#E69F00" title "stock, predicted", \
     '' using 1:4 with points pt 7 ps 0.9 lc rgb "#E69F00" title "stock, published", \
     '' using 1:3 with lines lw 2 lc rgb "#009E73" title "owner, predicted", \
     '' using 1:5 with points pt 7 ps 0.9 lc rgb "#009E73" title "owner, published"
set title "step" font ",13"
set yrange [500:20000]
plot out.'.dat' using 1:6 with lines lw 2 lc rgb "#E69F00" title "stock, predicted", \
     '' using 1:8 with points pt 7 ps 0.9 lc rgb "#E69F00" title "stock, published", \
     '' using 1:7 with lines lw 2 lc rgb "#009E73" title "owner, predicted", \
     '' using 1:9 with points pt 7 ps 0.9 lc rgb "#009E73" title "owner, published"
unset multiplot
