//! Temporary.
use std::future::Future;
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Engine,
    Here(tokio::runtime::Id),
}
impl Home {
    pub(crate) fn engine() -> Self {
        Self::Engine
    }
    pub(crate) fn current() -> Self {
        Self::Here(tokio::runtime::Handle::current().id())
    }
}
#[derive(Debug, Default)]
pub(crate) struct Engine;
impl Engine {
    pub(crate) fn spawn(&self, f: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(f);
    }
    pub(crate) fn spawn_on(&self, _: &Home, f: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(f);
    }
}
impl Engine {
    pub(crate) async fn finish<T: Send + 'static>(
        &self,
        f: impl Future<Output = T> + Send + 'static,
    ) -> T {
        tokio::spawn(f).await.unwrap()
    }
}
