//! In which order a function drops what it holds, by the edition of its crate.

use std::process::Command;

use crate::shop::{NO_FEATURES, Shop};

/// Polls each function once: on the embedded store, none of them waits.
const PROGRAM: &str = r#"
use ratelimit_runtime::{Rejection, rate_limit};
use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};

struct Dropped(&'static str);

impl Dropped {
    fn number(&self) -> u8 { 1 }
}

impl Drop for Dropped {
    fn drop(&mut self) { print!("{} ", self.0) }
}

macro_rules! functions {
    ($($(#[$limit:meta])? $name:ident)*) => {$(
        $(#[$limit])?
        async fn $name(_parameter: Dropped) -> Result<u8, Rejection> {
            let _variable = Dropped("variable");
            Ok(Dropped("temporary").number())
        }
    )*};
}

functions! {
    plain
    #[rate_limit(key = "limited", rate = 9, per = "1s", wait = "none")] limited
    #[rate_limit(key = "settled", rate = 9, per = "1s", wait = "none", refund_on = "err")] settled
}

fn run(future: impl Future<Output = Result<u8, Rejection>>) {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => println!("{}", result.is_ok()),
        Poll::Pending => println!("pending"),
    }
}

fn main() {
    let parameter = || Dropped("parameter");
    run(plain(parameter()));
    run(limited(parameter()));
    run(settled(parameter()));
}
"#;

#[test]
fn temporaries_are_dropped_as_in_the_edition_of_the_function() {
    for (edition, order) in [
        ("2021", "variable temporary parameter true\n"),
        ("2024", "temporary variable parameter true\n"),
    ] {
        let shop = Shop::new("editions", "ratelimit-runtime", NO_FEATURES);
        shop.in_edition(edition);
        shop.write("src/lib.rs", "");
        shop.write("src/main.rs", PROGRAM);
        let output = Command::new(shop.program()).output().expect("the program runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), order.repeat(3), "{edition}");
    }
}
