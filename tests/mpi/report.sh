#!/bin/sh
# report.sh - what a replay on several ranks says of itself: memory to the byte as predicted, classes of operations, a trace
# with predicted and measured rows alike, and a measurement file that validate predicts as the replay did.
. tests/mpi/lib.sh

# Parts of memory: predicted and measured bytes of each are the same number, and of the same rank.
memory_equal() { # json
    awk -F'[:,]' '/"rank":/ { r = $2 } /"predicted_rank":/ { p = $2 }
        /"predicted_bytes":/ { want = $2 } /"measured_bytes":/ { n++; if (want != " null" && $2 != want) bad++ }
        END { exit !(n == 11 && r == p && !bad) }' "$1"
}
# Events of a trace but for their times, of the predicted and the measured process of each rank (pids 2r, 2r + 1).
events() { # trace parity
    grep '"ph":"X"' "$1" | awk -v parity="$2" '{ match($0, /"pid":[0-9]+/); pid = substr($0, RSTART + 6, RLENGTH - 6)
        if (pid % 2 != parity) next
        sub(/"pid":[0-9]+/, "\"rank\":" int(pid / 2)); sub(/"ts":[0-9.]+,"dur":[0-9.]+,/, ""); print }' | sort
}
# Does every row's next event start when the one before has ended?
monotone() { # trace
    grep '"ph":"X"' "$1" | tr ',{}' '\n\n\n' | awk -F: '/^"pid"/ { p = $2 } /^"tid"/ { k = p "." $2 } /^"ts"/ { t = $2 }
        /^"dur"/ { if ($2 < 0 || t < last[k] - 1e-5) bad++; last[k] = t + $2; n++ } END { exit !(n > 0 && !bad) }'
}
of_row() { # json-of-validate id key
    awk -F': ' -v id="\"$2\"," -v key="\"$3\"" '$1 ~ /"id"/ { here = $2 == id } here && $1 ~ key { sub(/,$/, "", $2); print $2; exit }' "$1"
}
of_table() { # csv row: predicted_ms
    awk -F, -v row="$2" '$1 == row { print $2 }' "$1"
}

for layout in ddp zero1 zero1-owner zero3 zero3+gather-once owner; do
    plan p.json 3 $layout --grad-accum 2 || { bad "plan $layout"; continue; }
    on 3 "$work/p.json" --steps 2 --format json --trace "$work/t.json" --steps-file "$work/s.json"
    [ "$status" = 0 ] || { bad "$layout: status $status"; continue; }
    if memory_equal "$work/out"; then good; else bad "$layout: memory by part"; fi
    events "$work/t.json" 0 >"$work/predicted"
    events "$work/t.json" 1 >"$work/measured"
    if [ -s "$work/predicted" ] && cmp -s "$work/predicted" "$work/measured"; then good; else bad "$layout: events of the trace"; fi
    if monotone "$work/t.json" && "$BUILD/ballast" sim gpt2 --job "$work/t.json" 2>&1 | grep -q "unknown key 'displayTimeUnit'"; then good; else bad "$layout: the trace"; fi
    # the rows predict what the replay's own table has
    on 3 "$work/p.json" --steps 1 --format csv
    "$BUILD/ballast" validate "$work/s.json" --format json >"$work/v.json" 2>"$work/err"
    full=$(sed -n 's/.*"layout": "\(.*\)",/\1/p' "$work/s.json" | head -n 1)
    step=$(of_row "$work/v.json" "$full-3-step_ms" predicted) update=$(of_row "$work/v.json" "$full-3-optimizer_ms" predicted)
    if [ -n "$step" ] && [ "$step" = "$(of_table "$work/out" step)" ] && [ "$update" = "$(of_table "$work/out" 'optimizer phase')" ] &&
        [ "$(of_row "$work/v.json" "$full-3-memory_alloc_gib" error_percent)" = 0 ]; then good; else bad "$layout: validate predicts $step, $update"; fi
done

plan p.json 2 owner && on 2 "$work/p.json" --steps 1
for class in gemm attention norm elementwise embedding loss newton_schulz adamw owner_gather owner_reduce waiting total; do
    grep -q "^$class  *[1-9][0-9]* " "$work/out" || bad "no class $class"
done
good
on 2 "$work/p.json" --check --trace "$work/t.json"
refused 'a trace of a check' 2 '--trace needs the times of steps'
on 2 "$work/p.json" --steps 1 --steps-file "$work/nowhere/s.json"
refused 'a file that cannot be written' 4 'nowhere/s.json'
end
