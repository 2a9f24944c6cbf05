w = 1000; h = 480
load 'experiments/style.gp'
set multiplot layout 1,2 title "120 iterations of GPT models on 2, 4 and 8 A100 (vTrain's measurements)" font ",14"
set logscale xy
set xlabel "measured, ms"; set ylabel "predicted, ms"
set xrange [80:1600]; set yrange [80:1600]
plot x lc rgb grey title "predicted = measured", data.'vtrain.dat' using 1:2 with points pt 7 ps 0.6 lc rgb blue title "runs"
unset logscale y
set ylabel "predicted / measured - 1, %"
set yrange [-12:12]
plot 0 lc rgb grey notitle, data.'vtrain.dat' using 1:3 with points pt 7 ps 0.6 lc rgb blue notitle
unset multiplot
