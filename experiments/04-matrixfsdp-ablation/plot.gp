# Left: published against each algorithm, 1 to 8 nodes. Right: the same model on up to 1,024 GPUs.
w = 1100; h = 500
load 'experiments/style.gp'
published = 'experiments/04-matrixfsdp-ablation/published.dat'
set multiplot layout 1,2 title "Which collective moves the owners' segments?  64 layers of h 4096, a sequence of 4096 a GPU" font ",14"
set logscale xy
set grid xtics ytics lc rgb "#dddddd" lt 1
set format y "%g"
set ylabel "step, s"
set title "predicted (lines), published (points)" font ",12"
set xlabel "nodes of 8 A100, 4 NICs of 200 Gb/s"
set xrange [0.9:9]
set yrange [1.5:100]
set xtics (1, 2, 4, 8)
plot data.'steps.dat' every ::0::3 using 1:($2/1e3) with lines lw 2 lc rgb red title "direct sends (p2p)", \
     '' every ::0::3 using 1:($7/1e3) with lines lw 2 lc rgb red dt 2 title "direct sends over all NICs of a node (PXN)", \
     '' every ::0::3 using 1:($6/1e3) with lines lw 2 lc rgb purple title "all-gather padded to the largest owner", \
     '' every ::0::3 using 1:($3/1e3) with lines lw 2 lc rgb orange title "hierarchical", \
     '' every ::0::3 using 1:($4/1e3) with lines lw 2 lc rgb blue title "ring", \
     '' every ::0::3 using 1:($5/1e3) with lines lw 2 lc rgb green dt 2 title "tree", \
     published using 1:($3/1e3) with points pt 7 ps 1.1 lc rgb purple title "published: padded", \
     '' using 1:($2/1e3) with points pt 7 ps 1.1 lc rgb "black" title "published: owners' P2P"
set title "strong scaling of the same model" font ",12"
set xlabel "GPUs"
set xrange [7:1200]
set yrange [1.5:2000]
set xtics (8, 16, 32, 64, 128, 256, 512, 1024)
plot data.'steps.dat' using (8*$1):($2/1e3) with linespoints pt 6 ps 0.6 lw 2 lc rgb red title "direct sends (p2p)", \
     '' using (8*$1):($7/1e3) with linespoints pt 6 ps 0.6 lw 2 lc rgb red dt 2 title "direct sends, PXN", \
     '' using (8*$1):($3/1e3) with linespoints pt 6 ps 0.6 lw 2 lc rgb orange title "hierarchical", \
     '' using (8*$1):($4/1e3) with linespoints pt 6 ps 0.6 lw 2 lc rgb blue title "ring", \
     '' using (8*$1):($5/1e3) with linespoints pt 6 ps 0.6 lw 2 lc rgb green dt 2 title "tree"
unset multiplot
