//! `cargo xtask soak`: processes that come and go for minutes or an hour, and how the others learn of it.

use crate::{
    Failed, Outcome, redis,
    shell::{cargo, run},
};

pub(crate) fn run_for(arguments: &[String]) -> Outcome {
    let minutes = match arguments {
        [] => "60",
        [minutes] if minutes.parse::<u32>().is_ok_and(|minutes| minutes > 0) => minutes,
        _ => {
            eprintln!("`cargo xtask soak` takes a number of minutes; without it, it runs for 60");
            return Err(Failed);
        }
    };
    let server = redis::find_or_install()?;
    let mut command = cargo(&["run", "--locked", "--package", "tests", "--bin", "soak", "--"]);
    run(command.arg(minutes).env("REDIS_SERVER_BIN", &server.binary))
}
