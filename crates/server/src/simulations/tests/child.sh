#!/bin/sh
# Plays `pitwire` for the tests of simulations: the flow says how a run goes.
progress() { echo '{"done":1,"total":4}'; }
case "$1 $*" in
  export*) mkdir "$4" && echo a,b > "$4/trades.csv" && echo '{"ok":true}' ;;
  *--flow=fails*) echo 'pitwire: the flow is unstable (make its jumps smaller)' >&2; exit 1 ;;
  *--flow=slow*) progress; exec sleep 600 ;;
  *--flow=limited*)
    # The limit is set right after the start.
    until [ "$(ulimit -v)" != unlimited ]; do sleep 0.01; done
    echo "$(ulimit -v) KiB of address space" >&2
    exit 1
    ;;
  *--flow=large*) mkdir journal; progress; head -c 100000 /dev/zero > journal/big; exec sleep 600 ;;
  *)
    mkdir journal
    progress
    head -c 200000 /dev/zero > journal/report.json
    echo page > journal/report.html
    echo '{"events":5,"orders":4,"trades":3,"wall_s":0.5,"events_per_s":10.0,"tape_hash":"ab","report":{"seconds":1}}'
    ;;
esac
