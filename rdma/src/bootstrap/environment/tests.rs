//! What launchers say, and what becomes of it.

use super::*;

fn read(variables: &[(&str, &str)]) -> Result<Option<Invitation>> {
    let get = |name: &str| {
        let found = variables.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| OsString::from(value))
    };
    invitation(&Environment::new(&get))
}

fn refusal(variables: &[(&str, &str)]) -> String {
    read(variables).unwrap_err().to_string()
}

/// Environment of a launcher of two processes on one host.
const OPEN_MPI: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_RANK", "1"),
    ("OMPI_COMM_WORLD_SIZE", "2"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ("PMIX_NAMESPACE", "prterun-host-1@1"),
];
const HYDRA: [(&str, &str); 3] = [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", "2")];
const SLURM: [(&str, &str); 6] = [
    ("SLURM_JOB_ID", "7"),
    ("SLURM_STEP_ID", "0"),
    ("SLURM_PROCID", "1"),
    ("SLURM_NTASKS", "2"),
    ("SLURM_STEP_NUM_NODES", "1"),
    ("SLURM_STEP_NODELIST", "n[1-2]"),
];

const KEY_TEXT: (&str, &str) =
    ("PANGEA_KEY", "000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f");

#[test]
fn nodes_of_one_host_need_nothing_but_their_launcher() {
    for variables in [&OPEN_MPI[..], &HYDRA, &SLURM] {
        let invitation = read(variables).unwrap().unwrap();
        assert!(matches!(invitation, Invitation::Local(_)), "{invitation:?}");
        assert_eq!(invitation.node(), NodeId::new(1));
    }
}

#[test]
fn a_process_that_nobody_has_launched_is_alone() {
    assert!(read(&[]).unwrap().is_none());
    assert!(
        read(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")]).unwrap().is_none()
    );
    // A batch script, and a step of one task.
    assert!(read(&[SLURM[0], SLURM[2], SLURM[3]]).unwrap().is_none());
    let one = [SLURM[0], SLURM[1], ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")];
    assert!(read(&one).unwrap().is_none());
}

#[test]
fn a_step_on_several_hosts_meets_at_its_first_with_a_key() {
    let hosts = [&SLURM[..4], &[("SLURM_STEP_NUM_NODES", "2"), SLURM[5]]].concat();
    let error = refusal(&hosts);
    assert!(error.contains("PANGEA_KEY") && error.contains("pangea key FILE"), "{error}");
    let invitation = read(&[&hosts[..], &[KEY_TEXT]].concat()).unwrap().unwrap();
    let text = format!("{invitation:?}");
    assert!(text.contains("\"n1:2") || text.contains("\"n1:3"), "{text}");
    assert!(!text.contains("0001020304"), "a key is not printed");
}

#[test]
fn one_of_several_without_a_way_to_the_others_is_an_error() {
    let scattered = [OPEN_MPI[0], OPEN_MPI[1], ("OMPI_COMM_WORLD_LOCAL_SIZE", "1")];
    assert!(refusal(&scattered).starts_with("PANGEA_COORDINATOR"));
    assert!(refusal(&OPEN_MPI[..1]).starts_with("OMPI_COMM_WORLD_SIZE"));
    assert!(refusal(&[("PMIX_RANK", "0")]).contains("PANGEA_NODES"));
    assert!(refusal(&[("PANGEA_NODE", "0"), ("PANGEA_NODES", "2")]).contains("PANGEA_COORDINATOR"));
    assert!(refusal(&[("PANGEA_NODES", "2")]).starts_with("PANGEA_NODE:"));
    assert!(refusal(&[("PANGEA_NODE", "0")]).starts_with("PANGEA_NODES:"));
    assert!(refusal(&[("PANGEA_COORDINATOR", "h:1"), KEY_TEXT]).starts_with("PANGEA_NODE:"));
}

#[test]
fn what_is_out_of_range_is_named() {
    assert!(refusal(&[("PANGEA_NODE", "2"), ("PANGEA_NODES", "2")]).contains("2 of 2"));
    assert!(refusal(&[("PANGEA_NODE", "-1"), ("PANGEA_NODES", "2")]).contains("'-1'"));
    assert!(refusal(&[("PANGEA_NODE", "0"), ("PANGEA_NODES", "999")]).contains("1 to 128"));
    let place = [("PANGEA_COORDINATOR", "h:1"), ("PANGEA_NODE", "0"), ("PANGEA_NODES", "2")];
    let with = |more| refusal(&[&place[..], more].concat());
    assert!(with(&[]).contains("pangea key FILE"));
    assert!(with(&[("PANGEA_KEY", "abc")]).contains("64 hexadecimal digits"));
    assert!(with(&[KEY_TEXT, ("PANGEA_ADDRESSES", "eth0")]).contains("'eth0'"));
    assert!(with(&[KEY_TEXT, ("PANGEA_TRUSTED_NETWORK", "yes")]).contains("neither 0 nor 1"));
    assert!(with(&[("PANGEA_KEY_FILE", "/nonexistent/key")]).contains("/nonexistent/key"));
}

#[test]
fn what_a_person_says_comes_before_a_launcher() {
    let own = [("PANGEA_NODE", "0"), ("PANGEA_COORDINATOR", "h:1"), KEY_TEXT];
    let invitation = read(&[&OPEN_MPI[..], &own].concat()).unwrap().unwrap();
    assert!(matches!(invitation, Invitation::Hosts(_)));
    assert_eq!(invitation.node(), NodeId::new(0));
}

#[test]
fn a_job_that_is_started_by_hand_may_have_a_name_and_many_addresses() {
    let job = |place: &str, name: &str| {
        let part = [("PANGEA_NODE", "0"), ("PANGEA_NODES", "2"), KEY_TEXT];
        let own = [("PANGEA_COORDINATOR", place), ("PANGEA_JOB", name)];
        let text = format!("{:?}", read(&[&part[..], &own].concat()).unwrap().unwrap());
        text.split("job: ").nth(1).unwrap().split(']').next().unwrap().to_owned()
    };
    assert_eq!(job("h:1", ""), job("10.0.0.1:1", ""));
    assert_eq!(job("h:1", "mine"), job("10.0.0.1:1", "mine"));
    assert_ne!(job("h:1", "mine"), job("h:1", "yours"));
}
