/**
 * Workflows that the tests run.
 */

export const chargeCard = {
  id: 'charge-card',
  displayName: 'Charge a card',
  nodes: [
    {
      id: 'authorise',
      actionType: 'core.echo',
      parameters: { ok: true },
      edges: [
        { targetNode: 'capture', condition: 'trigger.amount > 0' },
        { targetNode: 'reject', condition: 'trigger.amount <= 0' },
      ],
    },
    {
      id: 'reject',
      actionType: 'core.fail',
      parameters: { code: 'CARD_DECLINED', message: 'amount {{ trigger.amount }} is not chargeable', retriable: false },
    },
    { id: 'capture', actionType: 'core.echo', parameters: { captured: '{{ trigger.amount }}' } },
  ],
};

export const billing = {
  id: 'billing',
  displayName: 'Nightly billing',
  triggerSchema: {
    type: 'object',
    required: ['customers'],
    properties: {
      customers: {
        type: 'array',
        title: 'Customers',
        items: { type: 'object', properties: { id: { type: 'string' }, amount: { type: 'integer' } } },
      },
    },
  },
  nodes: [
    {
      id: 'load',
      name: 'Load customers',
      actionType: 'core.echo',
      parameters: { n: '{{ trigger.customers.length }}' },
      edges: [{ targetNode: 'charge-all' }],
    },
    {
      id: 'charge-all',
      name: 'Charge each customer',
      forEach: {
        items: '{{ trigger.customers }}',
        body: {
          nodes: [
            { id: 'prepare', actionType: 'core.echo', parameters: { item: '{{ item }}' }, edges: [{ targetNode: 'charge' }] },
            { id: 'charge', subworkflow: { workflowId: 'charge-card', input: { amount: '{{ item.amount }}' } } },
          ],
        },
      },
      edges: [{ targetNode: 'report' }],
    },
    { id: 'report', actionType: 'core.echo', parameters: { done: true } },
  ],
};

export const release = {
  id: 'release',
  nodes: [
    { id: 'build', actionType: 'core.echo', edges: [{ targetNode: 'approve' }] },
    {
      id: 'approve',
      waitForSignal: {
        name: 'approval',
        schema: {
          type: 'object',
          required: ['approved'],
          properties: { approved: { type: 'boolean', title: 'Approved' }, comment: { type: 'string', title: 'Comment' } },
        },
      },
      edges: [{ targetNode: 'deploy', condition: 'output.approved' }],
    },
    { id: 'deploy', actionType: 'core.echo' },
  ],
};

/** Fails on the first attempt of the run, and succeeds when it is reattempted. */
export const flaky = {
  id: 'flaky',
  nodes: [{ id: 'call', actionType: 'core.fail', parameters: { code: 'HTTP_503', message: 'no capacity', untilAttempt: 2 } }],
};

export const HOSTILE = '<img src=x onerror="document.title=\'pwned\'">\u202egnp\u200b.exe"\'`';
