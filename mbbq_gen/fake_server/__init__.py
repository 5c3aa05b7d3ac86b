"""A local server that speaks the wire formats of chat APIs and answers as an oracle does: for tests and dry runs.

    socket ─► http ─► service (routes) ─► asking ─► dialects   what was asked, in which API's shape
                              │              ├────► faults     what goes wrong this time
                              │              ├────► limits     requests and tokens a minute
                              │              └────► answering  which question it is, what the oracle says
                              └► files, batches, admin
    ledger counts everything by the digest of its messages; scenario holds every setting and may change while it runs.

It needs nothing beside the standard library on the wire, and answers several thousand requests a second.
"""
