import asyncio
from datetime import timedelta

from durably import embedded
from durably_redis_async import RedisCheckpointer, RedisDurable, RedisStreamScheduler, Run, work
from redis.asyncio import Redis


async def order(run: Run) -> None:
    async def charge() -> str:
        return f"receipt for {run.workflow}"

    receipt = await run.step("charged", charge, str)  # recorded: a later pass is handed the receipt
    await run.sleep("cooling off", timedelta(seconds=1))  # an hour or a week work as well
    approval = await run.awaiting("approval", str)  # no process need wait for it

    async def ship() -> str:
        print(receipt, "approved by", approval)
        return "shipped"

    await run.step("shipped", ship, str)
    stop.set()  # outside a step: this line runs on every pass that comes here


async def main() -> None:
    with embedded.start() as server:  # or any Redis or Valkey that you run
        redis = Redis.from_url(server.url, decode_responses=True)
        durable = RedisDurable(RedisCheckpointer(redis), RedisStreamScheduler(redis))
        await durable.arrive("order-7", "approval", "accounting")  # records the value, asks for a pass
        await work(durable, order, stop=stop)
        await redis.aclose()


stop = asyncio.Event()
asyncio.run(main())
