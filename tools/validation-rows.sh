#!/bin/sh
# validation-rows.sh ROOT - prints docs/VALIDATION-ROWS.md: every measured step and memory that the program carries, beside its prediction.
# BALLAST is the program. A test compares the page with this.
cat <<'END'
# Every measured step, predicted

Written by `make validation-rows`; a test fails when a prediction here is not what the program says. Rows are those of experiments/*/measured, one section a file;
[VALIDATION.md](VALIDATION.md) says what was fitted to which, and what cannot be predicted. The rows of collectives are not here: `ballast validate --rows` prints them.

To predict a row yourself: `ballast sim MODEL --cluster CLUSTER --gpus N --layout LAYOUT`, the options of all rows of its section and its own. error: predicted over measured, less one. +-%: the band that the
program prints with such a run's time; none for what is no time of a step, and where no validation covers the run. source: its number below the table.

END
# The C locale sorts the same everywhere.
LC_ALL=C
export LC_ALL
cd "$1" || exit 1
files=
for f in experiments/*/measured/*.json; do
    grep -q '"ballast-steps"' "$f" && files="$files $f"
done
# shellcheck disable=SC2086
"${BALLAST:-ballast}" validate --rows --format md $files
