package bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.ConcurrentHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramIterationValue;
import org.redisson.api.RRateLimiter;

/** Decisions for a time, and how long each took. */
final class Load {

  private final RRateLimiter[] limiters;
  private final long time;
  private final Histogram latency = new ConcurrentHistogram(TimeUnit.MINUTES.toNanos(1), 2);
  private final LongAdder allowed = new LongAdder();
  private final LongAdder refused = new LongAdder();
  private final LongAdder errors = new LongAdder();
  private long start;
  private volatile long last;

  Load(RRateLimiter[] limiters, Duration time) {
    this.limiters = limiters;
    this.time = time.toNanos();
  }

  /** So many callers, each of which asks again as soon as it is answered. */
  Load closed(boolean threads, int callers) throws InterruptedException {
    start = System.nanoTime();
    CountDownLatch ended = new CountDownLatch(callers);
    List<Thread> started = new ArrayList<>();
    for (int i = 0; i < callers; i++) {
      if (threads) {
        Thread thread = new Thread(() -> callInThread(ended));
        thread.start();
        started.add(thread);
      } else {
        callAgain(ended);
      }
    }
    ended.await();
    for (Thread thread : started) {
      thread.join();
    }
    return this;
  }

  private void callInThread(CountDownLatch ended) {
    for (long now = System.nanoTime(); now - start < time; now = System.nanoTime()) {
      Boolean taken = null;
      try {
        taken = any().tryAcquire();
      } catch (RuntimeException thrown) {
        // Counted below.
      }
      record(taken, now);
    }
    ended.countDown();
  }

  private void callAgain(CountDownLatch ended) {
    long now = System.nanoTime();
    if (now - start >= time) {
      ended.countDown();
      return;
    }
    any()
        .tryAcquireAsync()
        .whenComplete(
            (taken, thrown) -> {
              record(taken, now);
              callAgain(ended);
            });
  }

  /** So many arrivals a second, whether those before were answered or not. */
  Load open(int rate) throws InterruptedException {
    // What is answered later than this after the last arrival is not answered.
    long patience = TimeUnit.SECONDS.toMillis(2);
    int arrivals = (int) (rate * (time / 1e9));
    Semaphore answered = new Semaphore(0);
    start = System.nanoTime();
    for (int i = 0; i < arrivals; i++) {
      long due = start + (long) (i * 1e9 / rate);
      for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
        LockSupport.parkNanos(left);
      }
      any()
          .tryAcquireAsync()
          .whenComplete(
              (taken, thrown) -> {
                record(taken, due);
                answered.release();
              });
    }
    if (!answered.tryAcquire(arrivals, patience, TimeUnit.MILLISECONDS)) {
      errors.add(arrivals - allowed.sum() - refused.sum() - errors.sum());
    }
    return this;
  }

  private RRateLimiter any() {
    return limiters.length == 1
        ? limiters[0]
        : limiters[ThreadLocalRandom.current().nextInt(limiters.length)];
  }

  private void record(Boolean taken, long since) {
    long now = System.nanoTime();
    last = now;
    if (taken == null) {
      errors.increment();
      return;
    }
    (taken ? allowed : refused).increment();
    latency.recordValue(Math.min(now - since, latency.getHighestTrackableValue()));
  }

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder("allowed ").append(allowed);
    text.append(" refused ").append(refused).append(" errors ").append(errors);
    text.append(" nanos ").append(last - start);
    // A copy, since late answers are still recorded.
    for (HistogramIterationValue value : latency.copy().recordedValues()) {
      text.append(' ').append(value.getValueIteratedTo());
      text.append(':').append(value.getCountAtValueIteratedTo());
    }
    return text.toString();
  }
}
