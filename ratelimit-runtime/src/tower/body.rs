//! The body of a response: the inner service's, or that of a rejection.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response of a [`LimitService`](super::LimitService): that of the inner
    /// service, or of a rejection.
    pub struct LimitBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Inner { #[pin] body: B },
        Own { text: Option<Bytes> },
    }
}

impl<B> LimitBody<B> {
    pub(super) fn inner(body: B) -> Self {
        Self { kind: Kind::Inner { body } }
    }

    /// Creates a text body, which may be empty.
    pub(super) fn own(text: String) -> Self {
        let text = Some(Bytes::from(text)).filter(|text| !text.is_empty());
        Self { kind: Kind::Own { text } }
    }
}

/// An empty body, as layers outside need for responses of their own: `CorsLayer` and `TimeoutLayer` of `tower-http`.
impl<B: Default> Default for LimitBody<B> {
    fn default() -> Self {
        Self::inner(B::default())
    }
}

impl<B: Body<Data = Bytes>> Body for LimitBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Inner { body } => body.poll_frame(context),
            KindProjection::Own { text } => {
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Own { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body } => body.size_hint(),
            Kind::Own { text } => {
                let length = text.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
        }
    }
}

impl<B> fmt::Debug for LimitBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_rejection = matches!(self.kind, Kind::Own { .. });
        f.debug_struct("LimitBody").field("is_rejection", &is_rejection).finish_non_exhaustive()
    }
}
