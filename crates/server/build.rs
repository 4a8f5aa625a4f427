//! Embeds the built web page. Cargo never runs npm: `make web` builds `web/dist`. A release build
//! without it fails.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets this"));
    let dist = root.join("../../web/dist");
    println!("cargo:rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    collect(&dist, "", &mut files);
    files.sort();
    let is_release = env::var("PROFILE").as_deref() == Ok("release");
    assert!(!(is_release && files.is_empty()), "web/dist is missing: run `make web` first");
    let mut code = String::from("pub const PAGE: &[(&str, &[u8])] = &[\n");
    for (name, path) in &files {
        writeln!(code, "    ({name:?}, include_bytes!({:?})),", path.display().to_string())
            .expect("a String takes all");
    }
    code.push_str("];\n");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets this")).join("page.rs");
    fs::write(out, code).expect("the build directory is writable");
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path().canonicalize().unwrap_or_else(|_| entry.path());
        let name = format!("{prefix}/{}", entry.file_name().to_string_lossy());
        println!("cargo:rerun-if-changed={}", path.display());
        if path.is_dir() {
            collect(&path, &name, files);
        } else {
            files.push((name, path));
        }
    }
}
