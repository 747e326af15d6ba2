//! `pangea run`.

use std::fs;

use crate::pangea::{command, run};

#[test]
fn every_node_is_told_who_it_is() {
    let script = "echo node $PANGEA_NODE of $PANGEA_NODES; echo err >&2";
    let ended = run(&["run", "-n", "3", "--", "sh", "-c", script]);
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] node 0 of 3", "[1] node 1 of 3", "[2] node 2 of 3"]);
    assert_eq!(ended.stderr.matches("] err\n").count(), 3);
    assert_eq!(ended.code, Some(0));
}

#[test]
fn output_can_be_left_as_it_is_or_written_to_files() {
    assert_eq!(run(&["run", "-n", "2", "--raw", "--", "echo", "x"]).success(), "x\nx\n");
    let folder = env!("CARGO_TARGET_TMPDIR").to_owned() + "/output";
    let script = "echo out $PANGEA_NODE; echo err $PANGEA_NODE >&2";
    let ended = run(&["run", "-n", "2", "--output", &folder, "--", "sh", "-c", script]);
    assert_eq!(ended.success(), "");
    for node in 0..2 {
        let read = |end: &str| fs::read_to_string(format!("{folder}/node-{node}.{end}")).unwrap();
        assert_eq!((read("out"), read("err")), (format!("out {node}\n"), format!("err {node}\n")));
    }
}

#[test]
fn a_node_that_fails_ends_all_and_gives_its_code() {
    let script = "[ $PANGEA_NODE = 1 ] && exit 7; exec sleep 60";
    let ended = run(&["run", "-n", "3", "--", "sh", "-c", script]);
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert!(ended.stderr.contains("node 1 failed"), "{ended:?}");
    let ended = run(&["run", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(ended.code, Some(128 + 9), "{ended:?}");
}

#[test]
fn a_program_that_is_not_there_is_an_error_that_names_it() {
    let error = run(&["run", "-n", "2", "--", "/no/such/program"]).error();
    assert!(error.contains("/no/such/program"), "{error}");
}

#[test]
fn signals_reach_the_nodes() {
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let script = "echo ready; exec sleep 60";
        let mut job = command(&["run", "-n", "2", "--raw", "--", "sh", "-c", script]);
        let mut job = job.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 12];
        std::io::Read::read_exact(job.stdout.as_mut().unwrap(), &mut ready).unwrap();
        assert_eq!(&ready, b"ready\nready\n");
        // SAFETY: the job was not waited for, so that its number is its own; no memory is touched.
        unsafe { libc::kill(job.id().try_into().unwrap(), signal) };
        assert_eq!(job.wait().unwrap().code(), Some(code));
    }
}

#[test]
fn twenty_jobs_at_once_do_not_meet() {
    let jobs: Vec<_> = (0..20)
        .map(|_| {
            let mut job = command(&["demo", "--nodes", "4", "--max-tokens", "2"]);
            job.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut job in jobs {
        assert!(job.wait().unwrap().success());
    }
}
