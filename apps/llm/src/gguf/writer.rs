//! Writes small GGUF files, right or wrong ones, for tests.

/// A file in the making: what was added so far.
#[derive(Clone, Default)]
pub(crate) struct Writer {
    keys: Vec<u8>,
    key_count: u64,
    tensors: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
}

/// A value and its type's number.
#[derive(Clone)]
pub(crate) enum Typed<'a> {
    I32(i32),
    U32(u32),
    U64(u64),
    F32(f32),
    Text(&'a str),
    /// Type number of the elements, their count, and their bytes.
    Array(u32, u64, Vec<u8>),
}

impl Typed<'_> {
    /// An array of strings.
    pub(crate) fn strings(strings: &[&[u8]]) -> Self {
        let mut bytes = Vec::new();
        for string in strings {
            put_string(&mut bytes, string);
        }
        Self::Array(8, strings.len() as u64, bytes)
    }
}

impl Writer {
    pub(crate) fn key(mut self, key: &str, value: Typed<'_>) -> Self {
        put_string(&mut self.keys, key.as_bytes());
        let mut put = |id: u32, bytes: &[u8]| {
            self.keys.extend(id.to_le_bytes());
            self.keys.extend(bytes);
        };
        match value {
            Typed::U32(number) => put(4, &number.to_le_bytes()),
            Typed::I32(number) => put(5, &number.to_le_bytes()),
            Typed::F32(number) => put(6, &number.to_le_bytes()),
            Typed::U64(number) => put(10, &number.to_le_bytes()),
            Typed::Text(text) => {
                put(8, &(text.len() as u64).to_le_bytes());
                self.keys.extend(text.as_bytes());
            }
            Typed::Array(id, len, bytes) => {
                put(9, &id.to_le_bytes());
                self.keys.extend(len.to_le_bytes());
                self.keys.extend(bytes);
            }
        }
        self.key_count += 1;
        self
    }

    /// Lists a tensor, whatever its offset.
    pub(crate) fn listed(mut self, name: &str, dims: &[u64], type_id: u32, offset: u64) -> Self {
        put_string(&mut self.tensors, name.as_bytes());
        let rank = u32::try_from(dims.len()).expect("a test lists few dimensions");
        self.tensors.extend(rank.to_le_bytes());
        dims.iter().for_each(|dimension| self.tensors.extend(dimension.to_le_bytes()));
        self.tensors.extend(type_id.to_le_bytes());
        self.tensors.extend(offset.to_le_bytes());
        self.tensor_count += 1;
        self
    }

    /// Adds a tensor with its data, at the next multiple of 32.
    pub(crate) fn tensor(mut self, name: &str, dims: &[u64], type_id: u32, bytes: &[u8]) -> Self {
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        let offset = self.data.len() as u64;
        self.data.extend(bytes);
        self.listed(name, dims, type_id, offset)
    }

    pub(crate) fn finish(&self) -> Vec<u8> {
        self.finish_with(3, 32)
    }

    pub(crate) fn finish_with(&self, version: u32, alignment: usize) -> Vec<u8> {
        let mut bytes = header(version, self.tensor_count, self.key_count);
        bytes.extend(&self.keys);
        bytes.extend(&self.tensors);
        bytes.resize(bytes.len().next_multiple_of(alignment), 0);
        bytes.extend(&self.data);
        bytes
    }
}

/// The first 24 bytes of a file.
pub(crate) fn header(version: u32, tensor_count: u64, key_count: u64) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(tensor_count.to_le_bytes());
    bytes.extend(key_count.to_le_bytes());
    bytes
}

fn put_string(bytes: &mut Vec<u8>, string: &[u8]) {
    bytes.extend((string.len() as u64).to_le_bytes());
    bytes.extend(string);
}
