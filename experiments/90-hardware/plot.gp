# Optimizer and step time over nodes, predicted (lines) and measured (points); dat and out come with -e.
set terminal svg size 900,380 font 'sans,12' background '#ffffff'
set output out
set multiplot layout 1,2
set logscale xy
set xlabel 'nodes'
set ylabel 'ms'
set grid
set key below maxrows 2
set xtics (1, 2, 4, 8, 16, 32)
pick(l, c) = sprintf("< awk '$2 == \"%s\" { print $1, $%d }' %s", l, c, dat)
set title 'optimizer'
plot pick('zero3+stock', 3) with lines lw 2 lc rgb '#c0392b' title 'stock, predicted', \
     pick('zero3+stock', 4) with points pt 7 lc rgb '#c0392b' title 'stock, measured', \
     pick('owner', 3) with lines lw 2 lc rgb '#2471a3' title 'owner, predicted', \
     pick('owner', 4) with points pt 7 lc rgb '#2471a3' title 'owner, measured'
set title 'step'
plot pick('zero3+stock', 5) with lines lw 2 lc rgb '#c0392b' title 'stock, predicted', \
     pick('zero3+stock', 6) with points pt 7 lc rgb '#c0392b' title 'stock, measured', \
     pick('owner', 5) with lines lw 2 lc rgb '#2471a3' title 'owner, predicted', \
     pick('owner', 6) with points pt 7 lc rgb '#2471a3' title 'owner, measured'
unset multiplot
