//! Which hosts a job runs on: a file as `mlx.launch` reads it, or a list of names.
//!
//! ```json
//! [{"ssh": "mac-1", "ips": ["192.168.10.1"], "rdma": [null, "rdma_en2"]},
//!  {"ssh": "mac-2", "ips": ["192.168.10.2"], "rdma": ["rdma_en2", null]}]
//! ```
//!
//! or that list as the field `hosts` of an object, with `envs` beside it. An entry is a node;
//! entries with the same name share a host. Row and column of `rdma` are nodes: the device that
//! leads from one to the other, or a list of them.

use std::{collections::BTreeMap, fmt, fs, net::IpAddr, path::Path};

use serde_json::{Map, Value};

/// A node's place.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Entry {
    /// What ssh calls the host.
    pub(crate) ssh: String,
    /// Its addresses, for the other nodes.
    pub(crate) ips: Vec<String>,
    /// The RDMA devices that lead to each node, if it is said.
    pub(crate) rdma: Vec<Vec<String>>,
}

/// What a file of hosts says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct HostFile {
    pub(crate) entries: Vec<Entry>,
    /// Environment variables for all nodes.
    pub(crate) envs: BTreeMap<String, String>,
    /// What was not understood, and is left out.
    pub(crate) warnings: Vec<String>,
}

/// What is wrong with a file of hosts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Malformed {
    /// It cannot be read, or is no JSON.
    Unreadable(String),
    /// It is JSON, but neither a list nor an object with one.
    NoList,
    /// It names no host.
    Empty,
    /// An entry has not got a field that it needs.
    Missing { entry: usize, field: &'static str },
    /// A field is something else than it should be.
    WrongType { entry: Option<usize>, field: &'static str, wanted: &'static str },
    /// A row of the matrix of devices has not one place for each node.
    WrongSize { entry: usize, found: usize, wanted: usize },
    /// A name that ssh would take for an option.
    Name(String),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => f.write_str(why),
            Self::NoList => f.write_str("neither a list of hosts nor an object with 'hosts'"),
            Self::Empty => f.write_str("it names no host"),
            Self::Missing { entry, field } => write!(f, "entry {entry} has no '{field}'"),
            Self::WrongType { entry: Some(entry), field, wanted } => {
                write!(f, "'{field}' of entry {entry} is not {wanted}")
            }
            Self::WrongType { entry: None, field, wanted } => {
                write!(f, "'{field}' is not {wanted}")
            }
            Self::WrongSize { entry, found, wanted } => write!(
                f,
                "'rdma' of entry {entry} has {found} places, but there are {wanted} entries: it \
                 has the device to each, and null for the entry itself"
            ),
            Self::Name(name) => write!(f, "'{name}' is no name of a host"),
        }
    }
}

type Result<T, E = Malformed> = std::result::Result<T, E>;

impl HostFile {
    /// Reads the file `hosts`, or takes it as a list of names with commas between them.
    pub(crate) fn read(hosts: &str) -> Result<Self> {
        let path = Path::new(hosts);
        let is_file = path.extension().is_some_and(|end| end == "json") || path.is_file();
        if !is_file {
            return Self::from_names(hosts);
        }
        let text = fs::read_to_string(path);
        Self::parse(&text.map_err(|error| Malformed::Unreadable(error.to_string()))?)
    }

    fn from_names(names: &str) -> Result<Self> {
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        let entry = |name: &str| Entry { ssh: name.to_owned(), ..Entry::default() };
        Self { entries: names.map(entry).collect(), ..Self::default() }.checked()
    }

    fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Malformed::Unreadable(format!("no JSON: {error}")))?;
        let mut file = Self::default();
        let list = match value {
            Value::Array(list) => list,
            Value::Object(mut fields) => {
                file.envs = envs(fields.remove("envs"))?;
                let list = fields.remove("hosts").ok_or(Malformed::NoList)?;
                // Which of MLX's ways to communicate is meant does not matter here.
                fields.remove("backend");
                file.warn(None, &fields);
                let wrong = Malformed::WrongType { entry: None, field: "hosts", wanted: "a list" };
                list.as_array().ok_or(wrong)?.clone()
            }
            _ => return Err(Malformed::NoList),
        };
        for (number, entry) in list.into_iter().enumerate() {
            let Value::Object(fields) = entry else {
                let wanted = "an object with 'ssh', 'ips', 'rdma'";
                return Err(wrong_type(number, "entry", wanted));
            };
            file.add(number, fields)?;
        }
        file.checked()
    }

    fn add(&mut self, number: usize, mut fields: Map<String, Value>) -> Result<()> {
        let missing = Malformed::Missing { entry: number, field: "ssh" };
        let ssh = fields.remove("ssh").ok_or(missing)?;
        let ssh = ssh.as_str().ok_or_else(|| wrong_type(number, "ssh", "a name"))?.to_owned();
        let ips = match fields.remove("ips") {
            None | Some(Value::Null) => Vec::new(),
            Some(value) => {
                addresses(&value).ok_or_else(|| wrong_type(number, "ips", "a list of addresses"))?
            }
        };
        let rdma = match fields.remove("rdma") {
            None | Some(Value::Null) => Vec::new(),
            Some(value) => devices(&value)
                .ok_or_else(|| wrong_type(number, "rdma", "a list of devices and nulls"))?,
        };
        self.warn(Some(number), &fields);
        self.entries.push(Entry { ssh, ips, rdma });
        Ok(())
    }

    fn warn(&mut self, entry: Option<usize>, unknown: &Map<String, Value>) {
        for field in unknown.keys() {
            let of = entry.map_or(String::new(), |entry| format!(" of entry {entry}"));
            self.warnings.push(format!("the field '{field}'{of} means nothing here"));
        }
    }

    fn checked(self) -> Result<Self> {
        let wanted = self.entries.len();
        if wanted == 0 {
            return Err(Malformed::Empty);
        }
        for (entry, Entry { ssh, rdma, .. }) in self.entries.iter().enumerate() {
            if ssh.is_empty() || ssh.starts_with('-') {
                return Err(Malformed::Name(ssh.clone()));
            }
            if !rdma.is_empty() && rdma.len() != wanted {
                return Err(Malformed::WrongSize { entry, found: rdma.len(), wanted });
            }
        }
        Ok(self)
    }
}

fn wrong_type(entry: usize, field: &'static str, wanted: &'static str) -> Malformed {
    Malformed::WrongType { entry: Some(entry), field, wanted }
}

/// A list of texts.
fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// A list of IP addresses.
fn addresses(value: &Value) -> Option<Vec<String>> {
    texts(value).filter(|list| list.iter().all(|text| text.parse::<IpAddr>().is_ok()))
}

/// The devices to each node: none, one, or a list of them.
fn devices(value: &Value) -> Option<Vec<Vec<String>>> {
    let devices = |value: &Value| match value {
        Value::Null => Some(Vec::new()),
        Value::String(name) => Some(vec![name.clone()]),
        list => texts(list),
    };
    value.as_array()?.iter().map(devices).collect()
}

/// The variables of a list of `NAME=VALUE`.
fn envs(value: Option<Value>) -> Result<BTreeMap<String, String>> {
    let wrong =
        || Malformed::WrongType { entry: None, field: "envs", wanted: "a list of NAME=VALUE" };
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(BTreeMap::new()) };
    let pair = |text: String| {
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    let pairs: Option<_> = texts(&value).ok_or_else(wrong)?.into_iter().map(pair).collect();
    pairs.ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"[
        {"ssh": "a", "ips": ["10.0.0.1", "10.1.0.1"], "rdma": [null, "rdma_en2"]},
        {"ssh": "b", "ips": ["10.0.0.2"], "rdma": [["rdma_en2", "rdma_en3"], null]}]"#;

    fn error(text: &str) -> String {
        HostFile::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn both_forms_of_mlx_are_read() {
        let list = HostFile::parse(LIST).unwrap();
        assert_eq!(list.entries[0].ips, ["10.0.0.1", "10.1.0.1"]);
        assert_eq!(list.entries[0].rdma, [vec![], vec!["rdma_en2".to_owned()]]);
        assert_eq!(list.entries[1].rdma[0], ["rdma_en2", "rdma_en3"]);
        let text = format!(r#"{{"backend": "jaccl", "envs": ["A=1=2"], "hosts": {LIST}}}"#);
        let object = HostFile::parse(&text).unwrap();
        assert_eq!(object.entries, list.entries);
        assert_eq!(object.envs, BTreeMap::from([("A".to_owned(), "1=2".to_owned())]));
        assert!(object.warnings.is_empty(), "{object:?}");
    }

    #[test]
    fn names_with_commas_between_them_are_a_list() {
        let file = HostFile::read("a, b,a").unwrap();
        let names: Vec<_> = file.entries.iter().map(|entry| &entry.ssh[..]).collect();
        assert_eq!(names, ["a", "b", "a"]);
        assert_eq!(HostFile::read(","), Err(Malformed::Empty));
        assert_eq!(HostFile::read("a,-oX"), Err(Malformed::Name("-oX".to_owned())));
        assert!(matches!(HostFile::read("/no/such.json"), Err(Malformed::Unreadable(_))));
    }

    #[test]
    fn what_is_not_understood_is_a_warning() {
        let text = r#"{"hosts": [{"ssh": "a", "port": 22}], "color": 1}"#;
        let warnings = HostFile::parse(text).unwrap().warnings;
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings.iter().any(|text| text.contains("'port' of entry 0")), "{warnings:?}");
    }

    #[test]
    fn what_is_wrong_is_an_error_that_names_entry_and_field() {
        for (text, words) in [
            ("[{}", "no JSON"),
            ("3", "neither a list"),
            ("{}", "neither a list"),
            ("[]", "no host"),
            (r#"{"hosts": 1}"#, "'hosts' is not a list"),
            (r#"[{"ssh": "a"}, {"ips": []}]"#, "entry 1 has no 'ssh'"),
            (r#"["a"]"#, "'entry' of entry 0 is not an object"),
            (r#"[{"ssh": 1}]"#, "'ssh' of entry 0 is not a name"),
            (r#"[{"ssh": "-x"}]"#, "'-x' is no name"),
            (r#"[{"ssh": "a", "ips": "10.0.0.1"}]"#, "'ips' of entry 0 is not a list"),
            (r#"[{"ssh": "a", "ips": ["mac"]}]"#, "'ips' of entry 0 is not a list of addresses"),
            (r#"[{"ssh": "a", "rdma": [1]}]"#, "'rdma' of entry 0 is not a list"),
            (r#"[{"ssh": "a", "rdma": [null, "x"]}]"#, "2 places, but there are 1 entries"),
            (r#"{"envs": ["A"], "hosts": []}"#, "'envs' is not a list of NAME=VALUE"),
        ] {
            assert!(error(text).contains(words), "{text}: {}", error(text));
        }
    }
}
