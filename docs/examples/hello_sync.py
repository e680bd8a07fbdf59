import threading
from datetime import timedelta

from durably import embedded
from durably_redis_sync import RedisCheckpointer, RedisDurable, RedisStreamScheduler, Run, work
from redis import Redis


def order(run: Run) -> None:
    def charge() -> str:
        return f"receipt for {run.workflow}"

    receipt = run.step("charged", charge, str)  # recorded: a later pass is handed the receipt
    run.sleep("cooling off", timedelta(seconds=1))  # an hour or a week work as well
    approval = run.awaiting("approval", str)  # no process need wait for it

    def ship() -> str:
        print(receipt, "approved by", approval)
        return "shipped"

    run.step("shipped", ship, str)
    stop.set()  # outside a step: this line runs on every pass that comes here


def main() -> None:
    with embedded.start() as server:  # or any Redis or Valkey that you run
        redis = Redis.from_url(server.url, decode_responses=True)
        durable = RedisDurable(RedisCheckpointer(redis), RedisStreamScheduler(redis))
        durable.arrive("order-7", "approval", "accounting")  # records the value, asks for a pass
        work(durable, order, stop=stop)
        redis.close()


stop = threading.Event()
main()
