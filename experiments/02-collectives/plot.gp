# Bus bandwidth over size, measured and predicted: a panel a collective (pictures of a node) or a
# fabric, and below each panel the measured over the predicted one. series.awk and run.sh wrote
# NAME.gp, NAME.points and NAME.curves; `name` is the picture's.
array title[9]; array first[9]; array last[9]; array label[40]; array colour[40]
of_size(n) = n == 8 ? "#0072B2" : n == 4 ? "#009E73" : "#D55E00"
next_colour(i) = word("#0072B2 #D55E00 #009E73 #CC79A7", i + 1)
load data.name.'.gp'
points = data.name.'.points'
curves = data.name.'.curves'
racks = name eq 'racks'
heading = name eq 'a100' ? "A100 in a node" : name eq 'h100' ? "H100 and H200 in a node" : name eq 'b200' ? "B200 in a node" : \
          racks ? "GB200 NVL72" : "Between nodes"

columns = n_panels < 3 ? n_panels : 3
lines = (n_panels + columns - 1) / columns
w = columns == 1 ? 960 : 90 + 430 * columns
h = 100 + 390 * lines
load 'experiments/style.gp'
# Pixels from the left and from the top, as shares of the picture.
x(p) = p / (1.0 * w)
y(p) = 1 - p / (1.0 * h)

# The heading and what the signs mean; the first plot draws them.
set label 1 heading.": bus bandwidth of NCCL, measured and predicted" at screen x(80),y(28) left font ",17"
set label 2 "" at screen x(87),y(58) point pt 7 ps 0.8 lc rgb grey
set label 3 "measured" at screen x(98),y(58) left
set label 4 "" at screen x(192),y(58) point pt 6 ps 0.8 lc rgb grey
set label 5 "measured, set apart" at screen x(203),y(58) left
set arrow 1 from screen x(370),y(58) to screen x(398),y(58) nohead lw 2 lc rgb grey
set label 6 "predicted" at screen x(406),y(58) left
set object 1 rectangle from screen x(498),y(64) to screen x(526),y(52) fs transparent solid 0.25 noborder fc rgb grey
set label 7 "90 % band" at screen x(534),y(58) left
set label 8 "%: mean error of the predicted time" at screen x(640),y(58) left

set logscale x 2
set logscale y
set mytics 1
set xrange [2**(racks ? 28 : 8.8):2**34.3]
set grid xtics ytics lc rgb "#dddddd" lt 1
size = racks ? 0.9 : 0.5
inside(r) = r < 0.5 ? 0.5 : r > 2 ? 2 : r
set multiplot
do for [p = 1:n_panels] {
    column = (p - 1) % columns
    line = (p - 1) / columns
    left = 80 + 430 * column
    top = 112 + 390 * line
    set lmargin at screen x(left)
    set rmargin at screen x(columns == 1 ? w - 20 : left + 360)

    set tmargin at screen y(top)
    set bmargin at screen y(top + 220)
    set label 9 title[p] at graph 0,1.06 left noenhanced font ",14"
    set ylabel (column ? "" : "bus bandwidth, GB/s") offset 0.5,0
    if (racks) { set yrange [150:1200]; set ytics (200, 400, 600, 800, 1000) } else { set yrange [0.01:2000]; set ytics 10 }
    set format y "%g"
    set xtics 2**10,racks ? 4 : 2**5
    set format x ""
    set key bottom right Right noreverse samplen 1.5 noenhanced font ",11"
    plot for [i = first[p]:last[p]] curves index i - 1 using 1:3:4 with filledcurves fs transparent solid 0.2 noborder lc rgb colour[i] notitle, \
         for [i = first[p]:last[p]] curves index i - 1 using 1:2 with lines lw 1.5 lc rgb colour[i] notitle, \
         for [i = first[p]:last[p]] points index i - 1 using 1:($4 == 1 ? NaN : $2) with points pt 7 ps size lc rgb colour[i] notitle, \
         for [i = first[p]:last[p]] points index i - 1 using 1:($4 == 1 ? $2 : NaN) with points pt 6 ps size lc rgb colour[i] notitle, \
         for [i = first[p]:last[p]] keyentry with linespoints lw 1.5 pt 7 ps 0.6 lc rgb colour[i] title label[i]
    unset label
    unset arrow
    unset object

    set tmargin at screen y(top + 234)
    set bmargin at screen y(top + 314)
    set ylabel (column ? "" : "measured /\npredicted") offset -0.3,0
    set yrange [0.5:2]
    set ytics (0.5, 0.7, 1, 1.4, 2)
    set xtics ("1 KiB" 2**10, "32 KiB" 2**15, "1 MiB" 2**20, "32 MiB" 2**25, "1 GiB" 2**30)
    if (racks) { set xtics ("256 MiB" 2**28, "1 GiB" 2**30, "4 GiB" 2**32, "16 GiB" 2**34) }
    unset key
    plot for [i = first[p]:last[p]] curves index i - 1 using 1:5:6 with filledcurves fs transparent solid 0.2 noborder lc rgb colour[i] notitle, \
         1 with lines lc rgb grey notitle, \
         for [i = first[p]:last[p]] points index i - 1 using 1:($4 == 1 ? NaN : inside($3)) with points pt 7 ps size lc rgb colour[i] notitle, \
         for [i = first[p]:last[p]] points index i - 1 using 1:($4 == 1 ? inside($3) : NaN) with points pt 6 ps size lc rgb colour[i] notitle
}
unset multiplot
