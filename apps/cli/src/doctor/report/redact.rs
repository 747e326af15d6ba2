//! Taking out of a text what says who somebody is: names, serial numbers, keys, the last parts of
//! addresses. What is left still tells two of them apart where that matters.

/// Knows what is to be hidden.
#[derive(Debug, Default)]
pub(super) struct Redactor {
    /// Words, and what is written instead.
    hidden: Vec<(String, &'static str)>,
}

impl Redactor {
    /// Hides every `word`; one that is nobody's name, or too short to tell anything, stays.
    pub(super) fn hide(&mut self, word: &str, instead: &'static str) {
        if word.len() >= 3 && !["root", "localhost"].contains(&word) {
            self.hidden.push((word.to_owned(), instead));
        }
    }

    /// The text without what is hidden.
    pub(super) fn redact(&self, text: &str) -> String {
        let lines = text.split_inclusive('\n').map(|line| match line.split_once(':') {
            Some((key, _)) if key.to_ascii_lowercase().contains("serial") => {
                format!("{key}: <serial>\n")
            }
            _ => self.redact_line(line),
        });
        lines.collect()
    }

    fn redact_line(&self, line: &str) -> String {
        let is_of_word = |c: char| c.is_alphanumeric() || "._:-%".contains(c);
        let mut redacted = String::new();
        let mut rest = line;
        while !rest.is_empty() {
            let len = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(len);
            redacted += &self.redact_word(word);
            let len = after.find(is_of_word).unwrap_or(after.len());
            redacted += &after[..len];
            rest = &after[len..];
        }
        redacted
    }

    fn redact_word(&self, word: &str) -> String {
        // What ends a sentence, or a list's part, is no part of a name.
        let name = word.trim_end_matches(['.', ':', '-']);
        let end = &word[name.len()..];
        let hidden = self.hidden.iter().find(|(known, _)| is_name(name, known));
        if let Some((_, instead)) = hidden {
            return format!("{instead}{end}");
        }
        if name.ends_with(".local") {
            return format!("<host>{end}");
        }
        let address = uuid(name).or_else(|| ipv4(name)).or_else(|| colons(name));
        address.or_else(|| number(name)).unwrap_or_else(|| name.to_owned()) + end
    }
}

/// Whether `name` is the one that is known, alone or with a domain.
fn is_name(name: &str, known: &str) -> bool {
    let rest = name.strip_prefix(known);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// `0a1b2c3d-x` of a UUID.
fn uuid(word: &str) -> Option<String> {
    let parts: Vec<&str> = word.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let is_uuid = lengths == [8, 4, 4, 4, 12] && parts.iter().all(|part| is_hex(part));
    is_uuid.then(|| format!("{}-x", parts[0]))
}

/// `192.168.1.x` of an IPv4 address, with its port if it has one.
fn ipv4(word: &str) -> Option<String> {
    let (address, port) = word.split_once(':').map_or((word, None), |(a, port)| (a, Some(port)));
    address.parse::<std::net::Ipv4Addr>().ok()?;
    let (network, _) = address.rsplit_once('.')?;
    Some(port.map_or(format!("{network}.x"), |port| format!("{network}.x:{port}")))
}

/// The first half of an Ethernet address, all but the last part of an IPv6 address or a GID.
fn colons(word: &str) -> Option<String> {
    let address = word.split('%').next()?;
    let parts: Vec<&str> = address.split(':').collect();
    let is_address = parts.len() > 2 && parts.iter().all(|part| part.is_empty() || is_hex(part));
    if !is_address {
        return None;
    }
    let kept = if parts.len() == 6 && !address.contains("::") { 3 } else { parts.len() - 1 };
    Some(format!("{}:x", parts[..kept].join(":")))
}

/// The beginning of a long number of hexadecimal digits: a GUID, a key.
fn number(word: &str) -> Option<String> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let is_long = digits.len() >= 16 && is_hex(digits);
    is_long.then(|| format!("{}x", &word[..word.len() - digits.len() + 6]))
}

fn is_hex(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keys_serials_and_the_ends_of_addresses_are_taken_out() {
        let mut redactor = Redactor::default();
        redactor.hide("jane", "<user>");
        redactor.hide("janes-mac", "<host>");
        for word in ["", "vm", "root"] {
            redactor.hide(word, "<host>");
        }
        for (text, expected) in [
            ("/Users/jane/model.gguf\n", "/Users/<user>/model.gguf\n"),
            ("jane@janes-mac.lan: ok", "<user>@<host>: ok"),
            ("other-mac.local.", "<host>."),
            ("janet", "janet"),
            ("/root/vm", "/root/vm"),
            ("inet 192.168.10.1 netmask", "inet 192.168.10.x netmask"),
            ("10.0.0.7:4000,", "10.0.0.x:4000,"),
            ("ether 02:ab:00:00:0c:01\n", "ether 02:ab:00:x\n"),
            ("fe80::34:1b%en3", "fe80::34:x"),
            (
                "GID 0000:0000:0000:0000:0000:ffff:c0a8:0a01",
                "GID 0000:0000:0000:0000:0000:ffff:c0a8:x",
            ),
            ("\"0A000001-0000-4000-8000-000000000001\",", "\"0A000001-x\","),
            ("rdma_en2  d0b5e9ab23cfac05", "rdma_en2  d0b5e9x"),
            ("0x05AC714E4ABE9815", "0x05AC71x"),
            ("  \"serial_number\" : \"C02XYZ\",\n", "  \"serial_number\" : <serial>\n"),
            ("Serial Number (system): C02XYZ", "Serial Number (system): <serial>\n"),
            ("MemTotal: 16330744 kB, 26.3, 1.5G", "MemTotal: 16330744 kB, 26.3, 1.5G"),
        ] {
            assert_eq!(redactor.redact(text), expected);
        }
    }

    #[test]
    fn any_text_can_be_redacted() {
        for text in ["", "\n", ":::", "…: ü%", "1.2.3.4.5", "a-b-c-d-e", "serial"] {
            Redactor::default().redact(text);
        }
    }
}
