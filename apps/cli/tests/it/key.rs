//! `pangea key`.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::pangea::{Ended, command, run};

#[test]
fn a_key_is_private_and_is_not_overwritten() {
    let path = env!("CARGO_TARGET_TMPDIR").to_owned() + "/cluster.key";
    _ = fs::remove_file(&path);
    let ended = run(&["key", &path]);
    assert!(ended.stderr.contains("PANGEA_KEY_FILE"), "{ended:?}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!ended.stderr.contains(text.trim()), "{ended:?}");
    assert_eq!(Path::new(&path).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let error = run(&["key", &path]).error();
    assert!(error.contains("cluster.key") && error.contains("already"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let doctor: Ended = command(&["doctor"]).env("PANGEA_KEY_FILE", &path).output().unwrap().into();
    assert!(doctor.stdout.lines().any(|line| line.starts_with("ok       key file")), "{doctor:?}");
    fs::remove_file(path).unwrap();
}
