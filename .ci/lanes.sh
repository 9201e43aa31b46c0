# Parts of a check that run one by one or in lanes, each with a bound. Sourced by .ci/run, which sets `work`, a folder.
lanes=${KQUEUE_CI_LANES:-2} begin_seconds=${KQUEUE_CI_BEGIN_SECONDS:-2700} part_seconds=${KQUEUE_CI_PART_SECONDS:-1800}
again_seconds=${KQUEUE_CI_AGAIN_SECONDS:-3300}
passed=() failed=() skipped=() mended=()
names=() started=() pids=() # of the parts in lanes, by number; a part that was told has no pid
declare -A commands=() # of the parts, by name: how to run it again
trap cut_short INT TERM

bounded() { # command...
    local status
    if command -v timeout > "$work/timeout"; then
        timeout --kill-after=30 "$part_seconds" "$@"
        status=$?
        ((status != 124 && status != 137)) || printf '=== ended, because its %s seconds were over\n' "$part_seconds"
        return "$status"
    fi
    "$@"
}

note() { # name, seconds, exit status
    if (($3 == 0)); then
        passed+=("$1")
        printf '=== %s: passed in %d s\n' "$1" "$2"
    else
        failed+=("$1")
        printf '=== %s: FAILED after %d s\n' "$1" "$2"
    fi
}

run() { # name, command...: now, and alone
    local name=$1 begin=$SECONDS status copy
    shift
    commands[$name]=$(printf '%q ' "$@")
    printf '\n=== %s: %s\n' "$name" "${*/#"$work/venv/bin/"/}"
    rm -f "$work/said"
    mkfifo "$work/said"
    tee -a "$work/part-alone" < "$work/said" &
    copy=$!
    bounded "$@" > "$work/said" 2>&1 &
    wait "$!"
    status=$?
    wait "$copy"
    note "$name" $((SECONDS - begin)) "$status"
}

queue() { # name, command...: as soon as a lane is free
    local number name=$1
    shift
    until (($(running) < lanes)); do
        sleep 0.5
        tell_ended
    done
    if ((SECONDS >= begin_seconds)); then
        skip "$name" "$begin_seconds seconds were over before it could begin: the machine is slow (KQUEUE_CI_BEGIN_SECONDS)"
        return
    fi
    number=${#names[@]}
    commands[$name]=$(printf '%q ' "$@")
    printf '\n=== %s: begins: %s\n' "$name" "${*/#"$work/venv/bin/"/}"
    names+=("$name") started+=("$SECONDS")
    bounded "$@" > "$work/part-$number" 2>&1 &
    pids+=("$!")
}

running() { # prints how many lanes are taken
    local count=0 pid
    for pid in ${pids[@]+"${pids[@]}"}; do
        [[ -z $pid ]] || ((count += 1))
    done
    echo "$count"
}

tell_ended() { # prints what each part said that has ended since the last call
    local number status
    for number in "${!names[@]}"; do
        [[ -n ${pids[number]} ]] && ! kill -0 "${pids[number]}" 2> "$work/ended" || continue
        wait "${pids[number]}"
        status=$?
        pids[number]=
        printf '\n=== %s:\n' "${names[number]}"
        cat "$work/part-$number"
        note "${names[number]}" $((SECONDS - started[number])) "$status"
    done
}

finish() { # waits for all parts in lanes
    until (($(running) == 0)); do
        sleep 0.5
        tell_ended
    done
}

again() { # runs what failed once more, alone: its failed tests, or all of it if no test was to blame
    local name first=(${failed[@]+"${failed[@]}"}) still=()
    export KQUEUE_PYTEST_OPTIONS="${KQUEUE_PYTEST_OPTIONS-} --last-failed"
    for name in ${first[@]+"${first[@]}"}; do
        failed=()
        if ((SECONDS >= again_seconds)); then
            still+=("$name")
            continue
        fi
        eval "run \"\$name\" ${commands[$name]}"
        if ((${#failed[@]})); then
            still+=("$name")
        else
            mended+=("$name")
        fi
    done
    failed=(${still[@]+"${still[@]}"})
}

cut_short() { # ends what runs, and tells what the parts in lanes said
    local number pid
    for pid in $(jobs -p); do
        pkill -TERM -P "$pid" # its `timeout`, which ends the rest
    done
    for number in "${!names[@]}"; do
        if [[ -n ${pids[number]} ]]; then
            printf '\n=== %s, cut short:\n' "${names[number]}"
            cat "$work/part-$number"
        fi
    done
    exit 2
}

skip() { # name, reason
    skipped+=("$1")
    printf '\n=== %s: skipped, because %s\n' "$1" "$2"
}

queue_unless() { # reason, name, command...
    if [[ -n $1 ]]; then
        skip "$2" "$1"
    else
        queue "${@:2}"
    fi
}

summary() { # exit status 0 only if all that ran passed
    local again
    again=$(cat "$work"/part-* 2> "$work/none" | sed 's/\x1b\[[0-9;]*m//g' | sed -n 's/^RERUN //p' | sort -u)
    [[ -z $again ]] || printf '\n=== failed once, and were run again; each is to be mended:\n%s\n' "$again"
    ((${#mended[@]})) && printf '\n=== failed beside other parts, and passed when run again alone: %s\n' "$(IFS=,; echo "${mended[*]}")"
    printf '\nci: %d passed, %d failed, %d skipped' "${#passed[@]}" "${#failed[@]}" "${#skipped[@]}"
    ((${#failed[@]})) && printf '; failed: %s' "$(IFS=,; echo "${failed[*]}")"
    ((${#skipped[@]})) && printf '; skipped: %s' "$(IFS=,; echo "${skipped[*]}")"
    printf '\n'
    ((${#failed[@]} == 0))
}
