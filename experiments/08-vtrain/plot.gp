# Left: predicted against measured. Right: the error over the measured time.
w = 1100; h = 500
load 'experiments/style.gp'
f = data.'scatter.dat'
only(n) = sprintf("< awk '$1 == %d' %s", n, f)
set multiplot layout 1,2 title "vTrain's data-parallel iterations: GPT of h 1024 and 2048 on A100, Megatron-DeepSpeed" font ",14"
set grid xtics ytics lc rgb "#dddddd" lt 1
set logscale xy
set xrange [80:3000]
set yrange [80:3000]
set xtics (100, 200, 500, 1000, 2000)
set ytics (100, 200, 500, 1000, 2000)
set xlabel "measured, ms"
set ylabel "predicted, ms"
set title "the line is equality, the band 5 %" font ",12"
plot '+' using 1:($1*0.95):($1*1.05) with filledcurves lc rgb "#e8e8e8" notitle, x with lines lc rgb grey notitle, \
     only(2) using 4:5 with points pt 7 ps 0.7 lc rgb blue title "2 GPUs", \
     only(4) using 4:5 with points pt 5 ps 0.7 lc rgb orange title "4 GPUs", \
     only(8) using 4:5 with points pt 9 ps 0.8 lc rgb green title "8 GPUs"
unset logscale y
set yrange [-12:12]
set ytics -10,5,10
set ylabel "error, %"
set title "predicted / measured - 1" font ",12"
plot 0 with lines lc rgb grey notitle, \
     only(2) using 4:6 with points pt 7 ps 0.7 lc rgb blue title "2 GPUs", \
     only(4) using 4:6 with points pt 5 ps 0.7 lc rgb orange title "4 GPUs", \
     only(8) using 4:6 with points pt 9 ps 0.8 lc rgb green title "8 GPUs"
unset multiplot
