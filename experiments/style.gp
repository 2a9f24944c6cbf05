# The look of the experiments' pictures. Set `w` and `h` (pixels) first; form ('svg' or 'png') and picture (the file) come with -e.
if (form eq 'png') {
    set terminal pngcairo enhanced font "Helvetica,11" size w,h background "white"
} else {
    set terminal svg enhanced font "Helvetica,12" size w,h background "white"
}
set output picture
set border 3 lc rgb "#666666"
set tics nomirror out
set grid ytics lc rgb "#dddddd" lt 1
set key top left reverse Left samplen 2
green = "#009E73"; orange = "#E69F00"; blue = "#0072B2"; red = "#D55E00"; purple = "#CC79A7"; grey = "#666666"
