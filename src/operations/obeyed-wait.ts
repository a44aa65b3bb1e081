/** The longest wait that official clients obey; with longer ones they do strange things. */
export const obeyedWaitMaxMs = 60_000;
