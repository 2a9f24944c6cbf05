w = 900; h = 480
load 'experiments/style.gp'
set title "peak memory a rank" font ",14"
set ylabel "GiB"
set style data histograms
set style histogram clustered gap 1
set style fill solid border rgb "white"
set logscale y
set yrange [1:200]
set xtics rotate by -25 font ",10" noenhanced
plot data.'memory.dat' using 2:xtic(1) lc rgb grey title "published", '' using 3 lc rgb blue title "predicted"
