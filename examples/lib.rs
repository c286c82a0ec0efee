//! The examples are in this folder, one file each; `README.md` is their index.
