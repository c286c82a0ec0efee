#![deny(warnings)]

use std::error::Error;

use ratelimit_runtime::{Rejection, rate_limit};

fn default<T: Default>(_: Rejection) -> T {
    T::default()
}

async fn default_later<T: Default>(_: Rejection) -> T {
    T::default()
}

fn refuse<T, E: From<Rejection>>(rejection: Rejection) -> Result<T, E> {
    Err(rejection.into())
}

fn never(_: Rejection) -> ! {
    panic!("limited")
}

fn boxed(_: Rejection) -> Box<u8> {
    Box::new(0)
}

#[rate_limit(key = "a", rate = 2, per = "1s", wait = "none", fallback = default)]
async fn a() -> Vec<u8> {
    vec![1]
}

#[rate_limit(key = "b", rate = 2, per = "1s", wait = "none", fallback = default_later)]
async fn b() -> Vec<u8> {
    vec![1]
}

#[rate_limit(key = "c", rate = 2, per = "1s", wait = "none", fallback = refuse)]
async fn c<T: Default>() -> Result<T, Box<dyn Error + Send + Sync>> {
    Ok(T::default())
}

#[rate_limit(key = "d:{name}", rate = 2, per = "1s", wait = "none", fallback = |_| Default::default())]
async fn d<'a>(name: &'a str) -> &'a str {
    name
}

#[rate_limit(key = "e", rate = 2, per = "1s", wait = "none", fallback = default)]
async fn e() {}

#[rate_limit(key = "f", rate = 2, per = "1s", wait = "none", fallback = never)]
async fn f() -> u8 {
    1
}

// What it returns coerces, as in a `return`.
#[rate_limit(key = "g", rate = 2, per = "1s", wait = "none", fallback = boxed)]
async fn g() -> Box<dyn Send> {
    Box::new(1)
}

#[rate_limit(key = "h", rate = 2, per = "1s", wait = "none", fallback = |_| "")]
async fn h() -> impl AsRef<str> + Send {
    ""
}

#[rate_limit(key = "i", rate = 2, per = "1s", wait = "none", fallback = |_| async { "" })]
async fn i() -> impl AsRef<str> + Send {
    ""
}

// It never returns, so its type is open.
#[rate_limit(key = "j", rate = 2, per = "1s", wait = "none", fallback = |_| panic!("limited"))]
async fn j() -> impl AsRef<str> + Send {
    ""
}

#[rate_limit(key = "k", rate = 2, per = "1s", wait = "none", fallback = never)]
async fn k() -> Result<impl AsRef<str> + Send, Rejection> {
    Ok("")
}

#[rate_limit(key = "l", rate = 2, per = "1s", wait = "none", fallback = refuse)]
async fn l() -> Result<impl AsRef<str> + Send, Rejection> {
    Ok("")
}

fn is_send(_: impl Send) {}

fn main() {
    is_send((a(), b(), c::<u8>(), d(""), e()));
    is_send((f(), g(), h(), i(), j(), k(), l()));
}
