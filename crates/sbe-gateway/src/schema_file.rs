//! Reads the messages of a schema file, for the tests that compare it with a codec.

/// Number, name and field names of a message, in order. Fields of a group are left out.
pub(crate) type SchemaMessage = (u16, String, Vec<String>);

fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

pub(crate) fn schema_messages(schema: &str) -> Vec<SchemaMessage> {
    let mut messages: Vec<SchemaMessage> = Vec::new();
    for line in schema.lines() {
        let name = attribute(line, "name").map(str::to_owned);
        if line.starts_with("  <sbe:message ") {
            messages.push((attribute(line, "id").unwrap().parse().unwrap(), name.unwrap(), Vec::new()));
        } else if ["    <field ", "    <group ", "    <data "].iter().any(|start| line.starts_with(start)) {
            messages.last_mut().unwrap().2.push(name.unwrap());
        }
    }
    messages
}

pub(crate) fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap().to_owned();
    words.fold(first, |joined, word| joined + &word[..1].to_uppercase() + &word[1..])
}
