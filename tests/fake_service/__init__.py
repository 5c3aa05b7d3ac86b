"""A local chat API for tests and benches, on aiohttp's server: it answers as an oracle does and fails as services do.

    client   starts it in a thread, changes its settings, reads its statistics
    app      routes, access, limits, faults on the wire, statistics; `faults` has all settings and draws what goes wrong
    model    which text is answered; `dialects` how each API asks and answers; `batches` files and batches

`python -m tests.fake_service.client --run RUN --settings '{"seed": 1}'` serves until killed and prints its address.
"""
