/* What a rank reports to be doing between the actions of its schedule: the codes that are passed
 * to weft_comm_publish(), beyond the positions of actions. */
#ifndef TRAINING_TRAINER_PHASES_H
#define TRAINING_TRAINER_PHASES_H

enum wf_phase {
    WF_PHASE_END = 1 << 30,
    WF_PHASE_UPDATE,
    WF_PHASE_SAVE,
    WF_PHASE_START,
    WF_PHASE_SAMPLE
};

#endif
